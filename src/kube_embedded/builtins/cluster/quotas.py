"""ResourceQuotas, LimitRanges, PodTemplates and ReplicationControllers: kept for clients, enforced by nobody."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import check_not_negative, unsupported
from kube_embedded.builtins.common.printing import AGE, NAME, age, container_cells, labels_cell
from kube_embedded.builtins.common.resource_requirements import check_resource_value
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.pod.spec import check_template

_API = "io.k8s.api.core.v1."


def _check_quota(quota: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in (quota["spec"].get("hard") or {}).items():
        errors += check_resource_value(f"spec.hard[{name}]", name, value)
    return errors


def _quota_row(quota: Object, context: Context) -> list[Any]:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    limits = sorted(name for name in hard if name.startswith("limits"))
    requests = sorted(name for name in hard if not name.startswith("limits"))

    def cell(names: list[str]) -> str:
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return [quota["metadata"]["name"], cell(requests), cell(limits), age(quota, context)]


QUOTAS = Rules(
    component=_API + "ResourceQuota",
    columns=(NAME, Column("Request"), Column("Limit"), AGE),
    cells=_quota_row,
    check=_check_quota,
    has_status=True,
)


def _default_limits(obj: Object) -> None:
    for item in obj["spec"].get("limits") or ():
        if item.get("type") == "Container":
            default = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
            if default:
                item["default"] = default
            if request:
                item["defaultRequest"] = request


LIMIT_RANGES = Rules(
    component=_API + "LimitRange",
    columns=(NAME, Column("Created At", type="date")),
    cells=lambda obj, context: [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")],
    defaults=_default_limits,
)


def _template_row(obj: Object, context: Context) -> list[Any]:
    template = obj["template"]
    labels = labels_cell(template["metadata"].get("labels"))
    return [obj["metadata"]["name"], *container_cells(template["spec"]), labels]


POD_TEMPLATES = Rules(
    component=_API + "PodTemplate",
    columns=(NAME, Column("Containers"), Column("Images"), Column("Pod Labels")),
    cells=_template_row,
    defaults=lambda obj: default_template(obj["template"]),
    check=lambda obj: check_template(obj["template"], "template"),
    bumps=lambda obj, old: bool(obj.get("template") != old.get("template")),
)


def _default_controller(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    labels = template["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    default_template(template)


def _check_controller(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = check_not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector") or {}
    if not selector:
        errors.append(required("spec.selector"))
    errors += check_not_negative("spec.replicas", spec["replicas"])
    template = spec.get("template")
    if template is None:
        return [*errors, required("spec.template")]
    labels = template["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, detail))
    errors += check_template(template)
    policy = template["spec"].get("restartPolicy", "")
    return (
        errors
        if policy == "Always"
        else [*errors, unsupported("spec.template.spec.restartPolicy", policy, ("Always",))]
    )


def _controller_row(obj: Object, context: Context) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, context),
        *container_cells(pod),
        labels_cell(spec.get("selector")),
    ]


CONTROLLERS = Rules(
    component=_API + "ReplicationController",
    columns=(
        NAME,
        Column("Desired", type="integer"),
        Column("Current", type="integer"),
        Column("Ready", type="integer"),
        AGE,
        Column("Containers", priority=1),
        Column("Images", priority=1),
        Column("Selector", priority=1),
    ),
    cells=_controller_row,
    defaults=_default_controller,
    check=_check_controller,
    fields=lambda obj: {"status.replicas": str((obj.get("status") or {}).get("replicas", 0))},
    bumps=spec_changed,
    has_status=True,
)
