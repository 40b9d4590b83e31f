"""Replicas, minimum and autoscaling of cliques and scaling groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spinney.api.field_errors import FieldError, forbidden, invalid, required
from spinney.api.kinds.podclique import AutoScaling
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.admission.name_rules import grouped
from spinney.core.expansion.shape import size_of

_ABOVE_ZERO = "must be greater than 0"
_UNDEFAULTED = "is filled in by the mutating webhook, which could not be asked: set it, or try again"


def count_errors(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    template = podcliqueset.spec.template
    if podcliqueset.spec.replicas < 0:
        yield invalid("spec.replicas", podcliqueset.spec.replicas, "must be greater than or equal to 0")
    if excess := size_of(podcliqueset).excess:
        yield invalid("spec.replicas", podcliqueset.spec.replicas, f"the set would have {excess}")
    group_of = grouped(template)
    for index, clique in enumerate(template.cliques):
        path, spec = f"spec.template.cliques[{index}].spec", clique.spec
        yield from _counts(path, spec.replicas, spec.min_available)
        if spec.auto_scaling_config is None:
            continue
        where = f"{path}.autoScalingConfig"
        if clique.name in group_of:
            detail = f"must not be set: the clique is scaled with its PodCliqueScalingGroup '{group_of[clique.name]}'"
            yield forbidden(where, detail)
        yield from _scaling(where, spec.auto_scaling_config, spec.replicas, spec.min_available or 0)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"spec.template.podCliqueScalingGroups[{index}]"
        yield from _counts(path, group.replicas, group.min_available)
        if group.scale_config is not None:
            yield from _scaling(f"{path}.scaleConfig", group.scale_config, group.replicas, group.min_available)


def _counts(path: str, replicas: int, min_available: int | None) -> Iterator[FieldError]:
    if replicas <= 0:
        yield invalid(f"{path}.replicas", replicas, _ABOVE_ZERO)
    if min_available is None:
        yield required(f"{path}.minAvailable", _UNDEFAULTED)
    elif min_available <= 0:
        yield invalid(f"{path}.minAvailable", min_available, _ABOVE_ZERO)
    elif min_available > replicas:
        detail = f"minAvailable must not be greater than replicas, which is {replicas}"
        yield invalid(f"{path}.minAvailable", min_available, detail)


def _scaling(path: str, scaling: AutoScaling, replicas: int, min_available: int) -> Iterator[FieldError]:
    fewest = replicas if scaling.min_replicas is None else scaling.min_replicas
    if fewest <= 0:
        yield invalid(f"{path}.minReplicas", fewest, _ABOVE_ZERO)
    if fewest < min_available:
        detail = f"must be greater than or equal to minAvailable, which is {min_available}"
        yield invalid(f"{path}.minReplicas", fewest, detail)
    if scaling.max_replicas < fewest:
        detail = f"must be greater than or equal to minReplicas, which is {fewest}"
        yield invalid(f"{path}.maxReplicas", scaling.max_replicas, detail)
    if scaling.max_replicas < replicas:
        detail = f"must be greater than or equal to replicas, which is {replicas}"
        yield invalid(f"{path}.maxReplicas", scaling.max_replicas, detail)
