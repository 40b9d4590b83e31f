"""Which gangs a name stands for: every PodGroup and pod says to whom it belongs.

Asks no server: owners of any kind are known by what their pods and PodGroups say of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from spinney.api.builtin.pod import Pod
from spinney.api.documents import LINE, DocumentError, read_document
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import (
    APP_PART_OF,
    DYNAMO_GRAPH_DEPLOYMENT,
    KAI_TOP_OWNER_METADATA,
    POD_GROUP_NAME,
    PODCLIQUE,
    PODGANG,
    SCALING_GROUP,
)
from spinney.api.meta import ObjectMeta

_SHORT = {
    "pcs": "podcliqueset",
    "pg": "podgroup",
    "pclq": "podclique",
    "pcsg": "podcliquescalinggroup",
    "dgd": "dynamographdeployment",
    "lws": "leaderworkerset",
    "deploy": "deployment",
    "sts": "statefulset",
}
_LABELLED = {
    PODGANG: "PodGang",
    PODCLIQUE: "PodClique",
    SCALING_GROUP: "PodCliqueScalingGroup",
    DYNAMO_GRAPH_DEPLOYMENT: "DynamoGraphDeployment",
}
_FIRST = ("DynamoGraphDeployment", "PodCliqueSet", "PodGang")
"""Of kinds that mean the same gangs, the one that the user most likely wrote."""


class NotThere(Exception):
    """There is nothing of that name, or it has no gang; the text says which."""


def find(groups: Sequence[PodGroup], pods: Sequence[Pod], name: str, kind: str) -> tuple[str, frozenset[str]] | None:
    """The kind of the object, and the names of its PodGroups, which may be none; None: nobody knows the name."""
    found = _candidates(groups, pods, name)
    asked = _singular(kind)
    if asked:
        found = {each: names for each, names in found.items() if each.lower() == asked}
    if not found:
        return None
    if len(set(found.values())) > 1:
        kinds = ", ".join(sorted(found))
        raise ValueError(f"{name} is the name of several objects: {kinds}; choose one with --kind")
    chosen = next((each for each in _FIRST if each in found), None) or min(found)
    return chosen, found[chosen]


def belongs(pod: Pod, kind: str, name: str) -> bool:
    """Whether a pod says that it is of that object."""
    return (kind, name) in _owners_of_pod(pod)


def is_kind(name: str, kind: str) -> bool:
    return not kind or name.lower() == _singular(kind)


def _singular(kind: str) -> str:
    """`jobs.batch`, `Job`, `pcs`: all in lower case, without group and plural."""
    word = kind.lower().partition(".")[0]
    word = _SHORT.get(word, word)
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _candidates(groups: Sequence[PodGroup], pods: Sequence[Pod], name: str) -> dict[str, frozenset[str]]:
    known: dict[str, set[str]] = {}
    for group in groups:
        for kind, owner in _owners_of_group(group):
            if owner == name:
                known.setdefault(kind, set()).add(group.metadata.name)
    for pod in pods:
        for kind, owner in _owners_of_pod(pod):
            if owner == name:
                group_name = pod.metadata.annotations.get(POD_GROUP_NAME)
                known.setdefault(kind, set()).update([group_name] if group_name else ())
    return {kind: frozenset(names) for kind, names in known.items()}


def _owners_of_group(group: PodGroup) -> Iterator[tuple[str, str]]:
    yield "PodGroup", group.metadata.name
    yield from _owners(group.metadata)
    written = _top_owner(group.metadata.annotations)
    if written.get("kind"):
        yield str(written["kind"]), str(written.get("name", ""))


def _owners_of_pod(pod: Pod) -> Iterator[tuple[str, str]]:
    yield "Pod", pod.metadata.name
    yield from _owners(pod.metadata)


def _owners(metadata: ObjectMeta) -> Iterator[tuple[str, str]]:
    for owner in metadata.owner_references:
        yield owner.kind, owner.name
    for label, kind in _LABELLED.items():
        if label in metadata.labels:
            yield kind, metadata.labels[label]
    if PODGANG in metadata.labels or any(owner.kind == "PodGang" for owner in metadata.owner_references):
        yield "PodCliqueSet", metadata.labels.get(APP_PART_OF, "")


def _top_owner(annotations: Mapping[str, str]) -> Mapping[str, object]:
    try:
        written = read_document(annotations.get(KAI_TOP_OWNER_METADATA, ""), limits=LINE)
    except DocumentError:
        return {}
    return written if isinstance(written, dict) else {}
