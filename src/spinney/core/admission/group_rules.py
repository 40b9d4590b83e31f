"""Cliques there must be, and scaling groups are made of them; labels and annotations of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from spinney.api.duration import DurationError, nanoseconds
from spinney.api.field_errors import FieldError, duplicate, invalid, required
from spinney.api.kinds.podcliqueset import PodCliqueSet, PodCliqueSetTemplate
from spinney.api.names import label_value, qualified_name
from spinney.core.admission.findings import choice


def composition_errors(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    template = podcliqueset.spec.template
    if not template.cliques:
        yield required("spec.template.cliques", "at least one PodClique must be defined")
    for index, clique in enumerate(template.cliques):
        path = f"spec.template.cliques[{index}]"
        yield from _labels(f"{path}.labels", clique.labels)
        yield from _keys(f"{path}.annotations", clique.annotations)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield from _keys(f"spec.template.podCliqueScalingGroups[{index}].annotations", group.annotations)
    yield from _members(template)
    yield from _delay(template.termination_delay)


def _members(template: PodCliqueSetTemplate) -> Iterator[FieldError]:
    known = {clique.name for clique in template.cliques}
    shown = choice(known)
    group_of: dict[str, str] = {}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        path = f"spec.template.podCliqueScalingGroups[{index}].cliqueNames"
        if not group.clique_names:
            yield required(path, "at least one clique must be named")
        seen: set[str] = set()
        for place, name in enumerate(group.clique_names):
            where = f"{path}[{place}]"
            if name in seen:
                yield duplicate(where, name)
            elif name not in known:
                yield invalid(where, name, f"no such clique; the cliques are [{shown}]")
            elif name in group_of:
                detail = f"clique is already in PodCliqueScalingGroup '{group_of[name]}', and may be in one only"
                yield invalid(where, name, detail)
            seen.add(name)
            group_of.setdefault(name, group.name)


def _labels(path: str, labels: Mapping[str, str]) -> Iterator[FieldError]:
    yield from _keys(path, labels)
    for key, value in labels.items():
        for complaint in label_value(value):
            yield invalid(f"{path}[{key}]", value, complaint)


def _keys(path: str, given: Mapping[str, str]) -> Iterator[FieldError]:
    for key in given:
        for complaint in qualified_name(key):
            yield invalid(path, key, complaint)


def _delay(delay: str) -> Iterator[FieldError]:
    path = "spec.template.terminationDelay"
    try:
        if delay and nanoseconds(delay) <= 0:
            yield invalid(path, delay, "must be greater than 0")
    except DurationError as error:
        yield invalid(path, delay, f"must be a duration, for instance 4h: {error}")
