"""The structure of a set: names of its parts, composition of cliques and scaling groups, replicas and autoscaling.

Names leave room for the names that are made from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kube_apimachinery.duration import DurationError, nanoseconds
from kube_apimachinery.field_errors import OMITTED, FieldError, duplicate, forbidden, invalid, required
from kube_apimachinery.name_validation import dns_1035_label, dns_label, env_name, label_value, qualified_name
from spinney.api.generated_names import NAME_BUDGET
from spinney.api.kinds.podclique import AutoScaling
from spinney.api.kinds.podcliqueset import PodCliqueSet, PodCliqueSetTemplate
from spinney.core.admission.decoding import items, text
from spinney.core.admission.findings import Findings, choice
from spinney.core.admission.pod_fields import amount_errors, type_errors, unknown_fields
from spinney.core.expansion.podcliqueset.set_layout import size_of

# Pod specifications of cliques: what the operator or the scheduler decides must not be set.
#
# Of the rest, what can be told by a look (`pod_fields`); the API server judges it when pods are made.

_NOT_OURS_TO_TAKE = ("topologySpreadConstraints", "nodeName")


def check_pods(podcliqueset: PodCliqueSet, found: Findings) -> None:
    for index, clique in enumerate(podcliqueset.spec.template.cliques):
        path, spec = f"spec.template.cliques[{index}].spec.podSpec", clique.spec.pod_spec
        for field in _NOT_OURS_TO_TAKE:
            if spec.get(field):
                found.refuse(invalid(f"{path}.{field}", text(spec[field]) or OMITTED, "must not be set"))
        if spec.get("restartPolicy", "Always") != "Always":
            found.warn(f"{path}.restartPolicy: restartPolicy will be ignored, it will be set to Always")
        for warning in unknown_fields(path, spec):
            found.warn(warning)
        found.refuse_all(type_errors(path, spec))
        found.refuse_all(_containers(path, spec))
        found.refuse_all(amount_errors(path, spec))


def _containers(path: str, spec: dict[str, Any]) -> Iterable[FieldError]:
    if not items(spec.get("containers")):
        yield required(f"{path}.containers", "at least one container must be given")
    names: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(items(spec.get(kind))):
            where = f"{path}.{kind}[{index}]"
            if isinstance(container, dict):
                yield from _container_name(f"{where}.name", container.get("name"), names)
                yield from _env(f"{where}.env", container.get("env"))


def _container_name(path: str, name: Any, names: set[str]) -> Iterator[FieldError]:
    if not isinstance(name, str) or not name:
        yield required(path, "must name the container")
    elif name in names:
        yield duplicate(path, name)
    else:
        names.add(name)
        for complaint in dns_label(name):
            yield invalid(path, name, complaint)


def _env(path: str, env: Any) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, variable in enumerate(items(env)):
        where = f"{path}[{index}].name"
        name = text(variable.get("name")) if isinstance(variable, dict) else ""
        if not name:
            yield required(where, "must name the variable")
            continue
        for complaint in env_name(name):
            yield invalid(where, name, complaint)
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)


_INDEX = re.compile(r"-[0-9]+-")


def name_errors(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    template = podcliqueset.spec.template
    name = podcliqueset.metadata.name
    for complaint in dns_1035_label(name) if name else ():
        yield invalid("metadata.name", name, f"the headless Services are named after the set: {complaint}")
    cliques = [(f"{_clique(index)}.name", clique.name) for index, clique in enumerate(template.cliques)]
    groups = [(f"{_group(index)}.name", one.name) for index, one in enumerate(template.pod_clique_scaling_groups)]
    roles = [(f"{_clique(index)}.spec.roleName", one.spec.role_name) for index, one in enumerate(template.cliques)]
    for path, part in (*cliques, *groups):
        for complaint in dns_label(part):
            yield invalid(path, part, complaint)
    for named in (cliques, groups, roles):
        yield from _duplicates(named)
    yield from _too_long_together(podcliqueset)
    yield from _collisions(template)


def grouped(template: PodCliqueSetTemplate) -> dict[str, str]:
    """The scaling group of each clique that is in one; the first where it is in several."""
    found: dict[str, str] = {}
    for group in template.pod_clique_scaling_groups:
        for name in group.clique_names:
            found.setdefault(name, group.name)
    return found


def _clique(index: int) -> str:
    return f"spec.template.cliques[{index}]"


def _group(index: int) -> str:
    return f"spec.template.podCliqueScalingGroups[{index}]"


def _duplicates(named: Iterable[tuple[str, str]]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for path, name in named:
        if name and name in seen:
            yield duplicate(path, name)
        seen.add(name)


def _too_long_together(podcliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Told on every field that contributes: any of them may be the one to shorten."""
    template, name = podcliqueset.spec.template, podcliqueset.metadata.name
    group_of = grouped(template)
    group_paths = {one.name: f"{_group(index)}.name" for index, one in enumerate(template.pod_clique_scaling_groups)}
    for index, clique in enumerate(template.cliques):
        group = group_of.get(clique.name, "")
        total = len(name) + len(group) + len(clique.name)
        if total <= NAME_BUDGET:
            continue
        between = f"PodCliqueScalingGroup '{group}', " if group else ""
        text = (
            f"combined resource name length {total} exceeds {NAME_BUDGET}-character limit required for pod naming. "
            f"Consider shortening: PodCliqueSet '{name}', {between}PodClique '{clique.name}'"
        )
        yield invalid("metadata.name", name, text)
        if group:
            yield invalid(group_paths[group], group, text)
        yield invalid(f"{_clique(index)}.name", clique.name, text)


def _collisions(template: PodCliqueSetTemplate) -> Iterator[FieldError]:
    """A clique `g-0-w` that stands alone would be named as clique `w` of the first replica of group `g`."""
    group_of = grouped(template)
    members = set(group_of.items())
    for index, clique in enumerate(template.cliques):
        if clique.name in group_of:
            continue
        for cut in _INDEX.finditer(clique.name):
            group, member = clique.name[: cut.start()], clique.name[cut.end() :]
            if (member, group) in members:
                text = f"its PodClique would have the name of PodClique '{member}' in PodCliqueScalingGroup '{group}'"
                yield invalid(f"{_clique(index)}.name", clique.name, text)


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
