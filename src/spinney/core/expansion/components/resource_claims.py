"""Resource claims that pods share: made for a set, a group or a clique, once or per replica, and given to pods (2.10).

The spec of a claim never changes; a claim of a replica goes with its replica.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from kube_apimachinery.name_validation import LABEL_LIMIT
from spinney.api import generated_names
from spinney.api.changes import Change, EmitEvent, Json, Resource
from spinney.api.kinds.podcliqueset import PodCliqueSet, ResourceSharing
from spinney.api.labels import COMPONENT_RESOURCE_CLAIM
from spinney.api.meta import ObjectMeta, PartialObject
from spinney.core.expansion.objects import (
    CLAIMS,
    delete,
    entries_patch,
    managed_labels,
    new_object,
    owner_reference,
    patch_object,
    short_hash,
)
from spinney.core.expansion.podcliqueset.set_layout import Member

FindTemplate = Callable[[str, str], Json | None]
"""The spec of a ResourceClaimTemplate object by namespace and name."""

_ALL = "AllReplicas"


def claims_of(podcliqueset: PodCliqueSet, member: Member, index: int) -> list[Json]:
    """The claims of one pod of a member, as its spec lists them."""
    names = [
        _name(podcliqueset.metadata.name, member.replica, entry)
        for entry in podcliqueset.spec.template.resource_sharing
        if _is_for(entry, member)
    ]
    if member.group is not None:
        names += [
            _name(member.group.name, member.group_replica, entry)
            for entry in member.group.config.resource_sharing
            if _is_for(entry, member)
        ]
    names += [_name(member.name, index, entry) for entry in member.template.resource_sharing]
    return [{"name": _in_pod(name), "resourceClaimName": name} for name in names]


def _in_pod(name: str) -> str:
    """The name of a claim inside a pod: a DNS label, while the claim itself may have a longer name with dots."""
    label = name.replace(".", "-")
    if len(label) <= LABEL_LIMIT:
        return label
    word = short_hash(name)
    return f"{label[: LABEL_LIMIT - len(word) - 1].rstrip('-')}-{word}"


def expand(
    podcliqueset: PodCliqueSet,
    entries: Sequence[ResourceSharing],
    owner: tuple[Resource, ObjectMeta],
    replicas: Collection[int],
    live: Sequence[PartialObject],
    template: FindTemplate,
) -> list[Change]:
    """The claims of one owner, by the indices of its replicas: create missing claims, correct labels, delete claims
    that belong to no replica any more."""
    known = {each.metadata.name: each for each in live}
    changes: list[Change] = []
    for name, entry in _wanted(owner[1].name, entries, replicas):
        found = known.pop(name, None)
        spec = _template(podcliqueset, owner[1], entry, template)
        if found is None:
            changes.append(_claim(podcliqueset, owner, name, entry, spec))
        elif labels := entries_patch(found.metadata.labels, _labels(podcliqueset, name, spec or {})):
            changes += patch_object(CLAIMS, found.metadata, {"metadata": {"labels": labels}})
    surplus = [change for each in known.values() for change in delete(CLAIMS, each.metadata)]
    return [*surplus, *changes]


def _wanted(
    owner: str, entries: Sequence[ResourceSharing], replicas: Collection[int]
) -> Iterator[tuple[str, ResourceSharing]]:
    for entry in entries:
        for replica in (0,) if entry.scope == _ALL else replicas:
            yield _name(owner, replica, entry), entry


def _name(owner: str, replica: int, entry: ResourceSharing) -> str:
    if entry.scope == _ALL:
        return generated_names.shared_claim(owner, entry.name)
    return generated_names.replica_claim(owner, replica, entry.name)


def _is_for(entry: ResourceSharing, member: Member) -> bool:
    if entry.filter is None:
        return True
    group = member.group.config.name if member.group is not None else ""
    return member.template.name in entry.filter.child_clique_names or group in entry.filter.child_scaling_group_names


def _template(
    podcliqueset: PodCliqueSet, owner: ObjectMeta, entry: ResourceSharing, template: FindTemplate
) -> Json | None:
    """The claim template's spec: from the set itself, else from a ResourceClaimTemplate object."""
    inner = podcliqueset.spec.template.resource_claim_templates
    found = next((each.template_spec for each in inner if each.name == entry.name), None)
    return found if found is not None else template(entry.namespace or owner.namespace, entry.name)


def _claim(
    podcliqueset: PodCliqueSet,
    owner: tuple[Resource, ObjectMeta],
    name: str,
    entry: ResourceSharing,
    found: Json | None,
) -> Change:
    resource, metadata = owner
    if found is None:
        place = entry.namespace or metadata.namespace
        message = f"ResourceClaimTemplate {place}/{entry.name} not found: ResourceClaim {name} cannot be made"
        return EmitEvent(resource.of(metadata), metadata.uid, "ResourceClaimCreateFailed", message, "", warning=True)
    target, labels = CLAIMS.at(name, metadata.namespace), _labels(podcliqueset, name, found)
    return new_object(target, labels=labels, owner=owner_reference(resource, metadata), spec=found.get("spec") or {})


def _labels(podcliqueset: PodCliqueSet, name: str, template: Json) -> dict[str, str]:
    theirs = (template.get("metadata") or {}).get("labels") or {}
    return {
        **theirs,
        **managed_labels(podcliqueset.metadata.name, name[:LABEL_LIMIT].rstrip("-."), COMPONENT_RESOURCE_CLAIM),
    }
