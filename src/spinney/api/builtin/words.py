"""Words that nearly all pods share: each is kept once, not once for every pod and change.

Never refuses a word that a newer server sends: it is learned. Never differs from the plain string it stands for.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any


class _Word(StrEnum):
    """The decoder gives the one member instead of a new string, and asks `_missing_` for a word it does not know."""

    __repr__ = str.__repr__

    @staticmethod
    def _generate_next_value_(name: str, *_: Any) -> str:
        return name

    @classmethod
    def _missing_(cls, value: object) -> _Word:
        return _learned(cls, str(value))


@lru_cache(maxsize=1024)
def _learned(words: type[_Word], value: str) -> _Word:
    word = str.__new__(words, value)
    word._name_ = word._value_ = value
    return word


if TYPE_CHECKING:  # strings to whoever reads or makes them
    ConditionStatus = str
    ConditionType = str
    Phase = str
    PreemptionPolicy = str
    TaintEffect = str
    TolerationOperator = str
else:
    ConditionStatus = _Word("ConditionStatus", "True False Unknown", module=__name__)
    ConditionType = _Word(
        "ConditionType",
        "Ready ContainersReady Initialized PodScheduled PodReadyToStartContainers DisruptionTarget",
        module=__name__,
    )
    Phase = _Word("Phase", "Pending Running Succeeded Failed Unknown", module=__name__)
    PreemptionPolicy = _Word("PreemptionPolicy", "PreemptLowerPriority Never", module=__name__)
    TaintEffect = _Word("TaintEffect", "NoSchedule PreferNoSchedule NoExecute", module=__name__)
    TolerationOperator = _Word("TolerationOperator", "Equal Exists", module=__name__)
