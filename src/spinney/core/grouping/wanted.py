"""The answer to a pod: the PodGroup it should be in, or why it is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spinney.api.changes import Json
from spinney.api.kinds.podgroup import PodGroupSpec


@dataclass(frozen=True, slots=True)
class Wanted:
    """`by_pod`: fields of the spec that count only where the PodGroup has none. `part`: the sub-group of the pod.

    `at_birth`: labels that are given once and are others' to change from then on.
    """

    namespace: str
    name: str
    owner: Json
    spec: PodGroupSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    at_birth: Mapping[str, str]
    part: str = ""
    by_pod: frozenset[str] = frozenset()
    single: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Somebody else sees to the group of this pod."""

    why: str
