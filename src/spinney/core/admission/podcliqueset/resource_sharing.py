"""What pods of a set share: resource claims, who gets one, and NVLink groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kube_apimachinery.name_validation import dns_label
from spinney.api.kinds.podcliqueset import PodCliqueSet, PodCliqueSetTemplate, ResourceSharing
from spinney.api.labels import MNNVL_GROUP
from spinney.core.admission.decoding import items, part
from spinney.core.admission.findings import choice
from spinney.core.admission.settings import AdmissionSettings

# The annotation that puts GPU pods into a multi-node NVLink group: known, allowed, and fixed.

NONE = "none"


def mnnvl_errors(podcliqueset: PodCliqueSet, settings: AdmissionSettings) -> Iterable[FieldError]:
    """A group that a clique without GPUs names has no effect, as in Grove: it gets no claim."""
    for path, group in _given(podcliqueset).values():
        if group == NONE:
            continue
        for complaint in dns_label(group):
            yield invalid(path, group, complaint)
        if not settings.mnnvl_enabled:
            yield invalid(path, group, "multi-node NVLink is not enabled in the operator (network.autoMNNVLEnabled)")


def mnnvl_changes(podcliqueset: PodCliqueSet, old: PodCliqueSet) -> Iterator[FieldError]:
    """Parts that are not in both are told elsewhere."""
    now, before = _given(podcliqueset), _given(old)
    parts = _parts(podcliqueset) & _parts(old)
    for key in sorted(parts):
        path, group = now.get(key, ("", ""))
        where, was = before.get(key, ("", ""))
        if group != was:
            yield forbidden(path or where, f'annotation is immutable: it was "{was}", found "{group}"')


def _parts(podcliqueset: PodCliqueSet) -> set[tuple[str, str]]:
    template = podcliqueset.spec.template
    groups = {("group", one.name) for one in template.pod_clique_scaling_groups}
    return {("set", "")} | groups | {("clique", one.name) for one in template.cliques}


def _given(podcliqueset: PodCliqueSet) -> dict[tuple[str, str], tuple[str, str]]:
    """By part: the path of the annotation and its value, where it is given."""
    template = podcliqueset.spec.template
    found = {("set", ""): ("metadata.annotations", podcliqueset.metadata.annotations)}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"spec.template.podCliqueScalingGroups[{index}].annotations"
        found["group", group.name] = (path, group.annotations)
    for index, clique in enumerate(template.cliques):
        found["clique", clique.name] = (f"spec.template.cliques[{index}].annotations", clique.annotations)
    return {
        part: (f"{path}[{MNNVL_GROUP}]", annotations[MNNVL_GROUP])
        for part, (path, annotations) in found.items()
        if MNNVL_GROUP in annotations
    }


_SCOPES = ("AllReplicas", "PerReplica")


def sharing_errors(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    template = podcliqueset.spec.template
    yield from _templates(template)
    own = {one.name for one in template.resource_claim_templates}
    cliques = {clique.name for clique in template.cliques}
    groups = {group.name for group in template.pod_clique_scaling_groups}
    yield from _list("spec.template.resourceSharing", template.resource_sharing, own, cliques, groups)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"spec.template.podCliqueScalingGroups[{index}].resourceSharing"
        yield from _list(path, group.resource_sharing, own, set(group.clique_names), ())
    for index, clique in enumerate(template.cliques):
        yield from _list(f"spec.template.cliques[{index}].resourceSharing", clique.resource_sharing, own, (), ())


def _templates(template: PodCliqueSetTemplate) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(template.resource_claim_templates):
        path = f"spec.template.resourceClaimTemplates[{index}]"
        if not one.name:
            yield required(f"{path}.name", "must name the template")
        elif one.name in seen:
            yield duplicate(f"{path}.name", one.name)
        seen.add(one.name)
        if not items(part(one.template_spec, "spec", "devices").get("requests")):
            yield required(f"{path}.templateSpec.spec.devices.requests", "at least one device request must be given")


def _list(
    path: str,
    shared: tuple[ResourceSharing, ...],
    own: Collection[str],
    cliques: Collection[str],
    groups: Collection[str],
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(shared):
        where = f"{path}[{index}]"
        if not one.name:
            yield required(f"{where}.name", "must name a claim template, of this set or an object")
        elif one.name in seen:
            yield duplicate(f"{where}.name", one.name)
        seen.add(one.name)
        if one.scope not in _SCOPES:
            yield not_supported(f"{where}.scope", one.scope, _SCOPES)
        if one.namespace and one.name in own:
            detail = f"must be empty: '{one.name}' is one of the resourceClaimTemplates of this set"
            yield invalid(f"{where}.namespace", one.namespace, detail)
        yield from _filter(f"{where}.filter", one, cliques, groups)


def _filter(
    path: str, shared: ResourceSharing, cliques: Collection[str], groups: Collection[str]
) -> Iterator[FieldError]:
    chosen = shared.filter
    if chosen is None:
        return
    if not cliques and not groups:
        yield forbidden(path, "must not be set: a clique has no children to choose from")
        return
    if not chosen.child_clique_names and not chosen.child_scaling_group_names:
        yield required(path, "must name at least one child")
    for field, names, known in (
        ("childCliqueNames", chosen.child_clique_names, cliques),
        ("childScalingGroupNames", chosen.child_scaling_group_names, groups),
    ):
        shown = choice(known)
        for index, name in enumerate(names):
            if name not in known:
                detail = f"no such child; the children are [{shown}]"
                yield invalid(f"{path}.{field}[{index}]", name, detail)
