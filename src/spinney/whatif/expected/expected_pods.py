"""Pods that would come together, and who would write their PodGroup.

Never has a node or a gate of ours: where pods go is the scheduler's to say, and when follows from `wave`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from spinney.api.changes import Json

PLANNED = "planned"
"""What stands for the uid of an object that does not exist."""
MOST_PODS = 50_000
"""Of all manifests and copies of a question: nobody waits for an answer about more."""
_MADE_FOR_EACH_POD = 4


class BadTemplate(ValueError):
    """An owner that no pods can be made of; the text names the field and what was found."""


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """`podgroup`: as an operator writes it; None: the pod-grouper finds it by `owners`, nearest first, and `gang`.

    `wave`: pods of a later one come when those before have their nodes; `after`: they keep their gate until this
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
    """Uids for what does not exist, each once; no more pods than are planned."""

    most_pods: int = MOST_PODS
    pods: int = 0
    _below: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    def uid(self) -> str:
        return f"{PLANNED}-{next(self._numbers)}"

    def uid_below(self, owner: Json) -> str:
        """For a pod or another object that an owner makes: also those without pods take time, and there may be many."""
        self._below += 1
        if self._below > _MADE_FOR_EACH_POD * self.most_pods:
            self.require(owner, self._below)
        return self.uid()

    def require(self, owner: Json, pods: int) -> None:
        """Raises BadTemplate where so many more are too many; asked before they are made."""
        if self.pods + pods <= self.most_pods:
            return
        beside = f" beside {self.pods} of other manifests or copies" if self.pods else ""
        raise BadTemplate(
            f"{owner['kind']} {owner['metadata']['name']}: found {pods} pods{beside}, "
            f"expected no more than {self.most_pods}, the most that are planned"
        )

    def adopt(self, body: Json) -> Json:
        """The object with a uid; one that exists keeps its own."""
        metadata = body["metadata"]
        return {**body, "metadata": {**metadata, "uid": metadata.get("uid") or self.uid()}}


def owner_reference(owner: Json) -> Json:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**named, "uid": metadata["uid"], "controller": True}
