"""The annotation that puts GPU pods into a multi-node NVLink group: known, allowed, and fixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kube_apimachinery.field_errors import FieldError, forbidden, invalid
from kube_apimachinery.name_validation import dns_label
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import GPU_RESOURCE, MNNVL_GROUP
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.expansion.components.compute_domains import asks_for_gpu

NONE = "none"


def mnnvl_errors(podcliqueset: PodCliqueSet, settings: AdmissionSettings) -> Iterable[FieldError]:
    for path, group in _given(podcliqueset).values():
        if group == NONE:
            continue
        for complaint in dns_label(group):
            yield invalid(path, group, complaint)
        if not settings.mnnvl_enabled:
            yield invalid(path, group, "multi-node NVLink is not enabled in the operator (network.autoMNNVLEnabled)")
    if settings.mnnvl_enabled:
        yield from _without_gpus(podcliqueset)


def _without_gpus(podcliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """A clique may be in the group of its set or scaling group without GPUs; by its own wish it may not."""
    given = _given(podcliqueset)
    for clique in podcliqueset.spec.template.cliques:
        path, group = given.get(("clique", clique.name), ("", NONE))
        if group != NONE and not asks_for_gpu(clique):
            yield invalid(path, group, f"no container of the clique asks for {GPU_RESOURCE}")


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
