"""Pod specifications of cliques: what the operator or the scheduler decides must not be set.

Of the rest, what can be told by a look (`pod_fields`); the API server judges it when pods are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kube_apimachinery.field_errors import OMITTED, FieldError, duplicate, invalid, required
from kube_apimachinery.name_validation import dns_label, env_name
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.admission.decoding import items, text
from spinney.core.admission.findings import Findings
from spinney.core.admission.pod_fields import amount_errors, type_errors, unknown_fields

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
