"""Words that nearly all pods share: each is kept once, not once for every pod and change.

Never refuses a word that a newer server sends: it is learned. Never differs from the plain string it stands for.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any


class _InternedWord(StrEnum):
    """The decoder gives the one member instead of a new string, and asks `_missing_` for a word it does not know."""

    __repr__ = str.__repr__

    @staticmethod
    def _generate_next_value_(name: str, *_: Any) -> str:
        return name

    @classmethod
    def _missing_(cls, value: object) -> _InternedWord:
        return _interned(cls, str(value))


@lru_cache(maxsize=1024)
def _interned(words: type[_InternedWord], value: str) -> _InternedWord:
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
    ConditionStatus = _InternedWord("ConditionStatus", "True False Unknown", module=__name__)
    ConditionType = _InternedWord(
        "ConditionType",
        "Ready ContainersReady Initialized PodScheduled PodReadyToStartContainers DisruptionTarget",
        module=__name__,
    )
    Phase = _InternedWord("Phase", "Pending Running Succeeded Failed Unknown", module=__name__)
    PreemptionPolicy = _InternedWord("PreemptionPolicy", "PreemptLowerPriority Never", module=__name__)
    TaintEffect = _InternedWord("TaintEffect", "NoSchedule PreferNoSchedule NoExecute", module=__name__)
    TolerationOperator = _InternedWord("TolerationOperator", "Equal Exists", module=__name__)
