"""Pods that would come together, and who would write their PodGroup.

Never has a node or a gate of ours: where pods go is the scheduler's to say, and when is the order of broods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from spinney.api.changes import Json

PLANNED = "planned"
"""What stands for the uid of an object that does not exist."""
MOST_PODS = 50_000
"""Of one manifest: nobody waits for an answer about more."""


class BadTemplate(ValueError):
    """An owner that no pods can be made of; the text names the field and what was found."""


@dataclass(frozen=True, slots=True)
class Brood:
    """`podgroup`: as an operator writes it; None: the pod-grouper finds it by `owners`, nearest first, and `gang`.

    `wave`: broods of a later one come when those before have their nodes; `after`: they keep their gate until this
    PodGroup has (G12). `claims`: ResourceClaims that are made for the pods; `volume_claims`: PersistentVolumeClaims.
    """

    pods: tuple[Json, ...]
    podgroup: Json | None = None
    owners: tuple[Json, ...] = ()
    gang: Json | None = None
    wave: int = 0
    after: str = ""
    claims: tuple[str, ...] = ()
    volume_claims: tuple[Json, ...] = ()


@dataclass(slots=True)
class Registry:
    """Uids for what does not exist, each once."""

    _numbers: Iterator[int] = field(default_factory=count)

    def uid(self) -> str:
        return f"{PLANNED}-{next(self._numbers)}"

    def adopt(self, body: Json) -> Json:
        """The object with a uid; one that exists keeps its own."""
        metadata = body["metadata"]
        return {**body, "metadata": {**metadata, "uid": metadata.get("uid") or self.uid()}}


def owner_reference(owner: Json) -> Json:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**named, "uid": metadata["uid"], "controller": True}
