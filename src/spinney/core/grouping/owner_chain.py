"""A pod and its owners, up to the object that the user created; what users did wrong on them, as a sentence.

Owners are third-party objects of any shape: fields are checked when they are read, and a bad value is a user error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spinney.api.changes import Json
from spinney.api.meta import ObjectMeta, Slim

# User errors, as a sentence that names the object, the field, what was found and what is allowed.


@dataclass(frozen=True, slots=True)
class UserError:
    """An error that keeps the pod without a group until the user corrects it."""

    sentence: str


class InvalidFieldError(Exception):
    """A user error as an exception, raised while a group is derived."""

    def __init__(self, subject: object, field: str, found: Any, expected: str) -> None:
        super().__init__(sentence(subject, field, found, expected))


def sentence(subject: object, field: str, found: Any, expected: str) -> str:
    """`Job default/train: metadata.annotations[x]: found "rak", expected ...`."""
    shown = "none" if found is None else json.dumps(found, ensure_ascii=False, default=str)
    return f"{subject}: {field}: found {shown}, expected {expected}"


def annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"


def label(key: str) -> str:
    return f"metadata.labels[{key}]"


# A pod as the pod-grouper sees it.
#
# Never wider than what is read: there is one for each pod of the cluster.

_OVER = ("Succeeded", "Failed")


class Gate(Slim, frozen=True):
    name: str = ""


class PodSpec(Slim, frozen=True):
    scheduler_name: str = ""
    node_name: str = ""
    priority_class_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()


class PodCondition(Slim, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Slim, frozen=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()


class Pod(Slim, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def title(self) -> str:
        return f"Pod {self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_alive(self) -> bool:
        """Neither ended nor on its way out."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in _OVER

    def condition(self, kind: str) -> PodCondition | None:
        return next((one for one in self.status.conditions if one.type == kind), None)


@dataclass(frozen=True, slots=True)
class Owner:
    """One direct or indirect owner of a pod."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    body: Json

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def group_kind(self) -> tuple[str, str]:
        return self.group, self.kind

    @property
    def reference(self) -> Json:
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def part(self, *path: str) -> Json:
        """The object at a field path; empty if it is missing."""
        found: Json = self.body
        for index, key in enumerate(path):
            below: Any = found.get(key)
            if below is None:
                return {}
            if not isinstance(below, dict):
                raise InvalidFieldError(self, ".".join(path[: index + 1]), below, "an object")
            found = below
        return found

    def items(self, *path: str) -> list[Json]:
        """The list of objects at a field path."""
        found = self.part(*path[:-1]).get(path[-1])
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise InvalidFieldError(self, ".".join(path), found, "a list of objects")
        return found

    def count(self, *path: str) -> int | None:
        """The integer at a field path."""
        return whole(self, self.part(*path[:-1]), path[-1], ".".join(path))

    def word(self, *path: str) -> str:
        """The string at a field path; empty if it is missing."""
        found = self.part(*path[:-1]).get(path[-1])
        if found is None:
            return ""
        if not isinstance(found, str):
            raise InvalidFieldError(self, ".".join(path), found, "a text")
        return found

    def under(self, above: Owner) -> Owner:
        """The object with the labels and annotations of an owner above it merged in; its own take precedence."""
        return replace(
            self, labels={**above.labels, **self.labels}, annotations={**above.annotations, **self.annotations}
        )


def whole(owner: Owner, part: Json, key: str, path: str) -> int | None:
    """A non-negative integer field; None if it is missing."""
    found = part.get(key)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise InvalidFieldError(owner, path, found, "a whole number of 0 or more")
    return found


@dataclass(frozen=True, slots=True)
class OwnerChain:
    """Owners from the nearest to the top one. A pod without owners is its own top owner.

    `gang`: the PodGang that the pod names, if any. `hidden`: the owner above the top one that we may not read.
    """

    pod: Pod
    owners: tuple[Owner, ...]
    gang: Owner | None = None
    hidden: str = ""

    @property
    def top(self) -> Owner:
        return self.owners[-1]

    @property
    def is_bare(self) -> bool:
        """Whether the pod has no owner."""
        return self.top.uid == self.pod.metadata.uid

    def of_kind(self, group: str, kind: str) -> Owner | None:
        """The nearest owner of a kind, in any version."""
        return next((owner for owner in self.owners if owner.group_kind == (group, kind)), None)

    def without_top(self) -> OwnerChain:
        """The chain without its top owner; the next owner inherits the top's labels and annotations."""
        below = self.owners[:-1]
        if not below:
            return replace(self, owners=(pod_as_owner(self.pod).under(self.top),))
        return replace(self, owners=(*below[:-1], below[-1].under(self.top)))


def chain_of(pod: Pod, owners: tuple[Owner, ...] = (), gang: Owner | None = None, hidden: str = "") -> OwnerChain:
    return OwnerChain(pod, owners or (pod_as_owner(pod),), gang, hidden)


def owner_of(body: Json) -> Owner:
    """An owner from the server's JSON. The server guarantees that labels and annotations are strings."""
    metadata = body["metadata"]
    return Owner(
        body["apiVersion"],
        body["kind"],
        metadata.get("namespace") or "",
        metadata["name"],
        metadata["uid"],
        _texts(metadata.get("labels")),
        _texts(metadata.get("annotations")),
        body,
    )


def _texts(found: Any) -> Mapping[str, str]:
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def pod_as_owner(pod: Pod) -> Owner:
    metadata = pod.metadata
    return Owner(
        "v1", "Pod", metadata.namespace, metadata.name, metadata.uid, metadata.labels, metadata.annotations, {}
    )
