"""CronJobs. Nothing runs them here, and nobody reads their schedules."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import check_not_negative, unsupported
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, age, container_cells, selector_cell, since
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.workload.jobs import check_job_spec, default_failure_policy

_WIDE = (Column("Containers", priority=1), Column("Images", priority=1), Column("Selector", priority=1))


def _default_cron_job(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    default_failure_policy(spec["jobTemplate"]["spec"])
    default_template(spec["jobTemplate"]["spec"]["template"])


def _check_cron_job(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = [] if spec.get("schedule") else [required("spec.schedule")]
    errors += check_not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    policy = spec["concurrencyPolicy"]
    if policy not in ("Allow", "Forbid", "Replace"):
        errors.append(unsupported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace")))
    template = dict(spec["jobTemplate"]["spec"])
    if "selector" in template:
        path = "spec.jobTemplate.spec.selector"
        errors.append(invalid(path, template["selector"], "`selector` will be auto-generated"))
    template.setdefault("completionMode", "NonIndexed")
    template.setdefault("podReplacementPolicy", "Failed")
    errors += check_job_spec(template, "spec.jobTemplate.spec")
    errors += check_not_negative("spec.successfulJobsHistoryLimit", spec.get("successfulJobsHistoryLimit"))
    return errors + check_not_negative("spec.failedJobsHistoryLimit", spec.get("failedJobsHistoryLimit"))


def _check_cron_name(obj: Object) -> list[FieldError]:
    name = obj["metadata"].get("name", "")
    return [invalid("metadata.name", name, "must be no more than 52 characters")] if len(name) > 52 else []


def _cron_row(obj: Object, context: Context) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    template = spec["jobTemplate"]["spec"]
    return [
        obj["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone", NONE),
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        since(status["lastScheduleTime"], context) if status.get("lastScheduleTime") else NONE,
        age(obj, context),
        *container_cells(template["template"]["spec"]),
        selector_cell(template.get("selector")),
    ]


CRON_JOBS = Rules(
    component="io.k8s.api.batch.v1.CronJob",
    columns=(
        NAME,
        Column("Schedule"),
        Column("Timezone"),
        Column("Suspend", type="boolean"),
        Column("Active", type="integer"),
        Column("Last Schedule"),
        AGE,
        *_WIDE,
    ),
    cells=_cron_row,
    defaults=_default_cron_job,
    check=_check_cron_job,
    check_create=_check_cron_name,
    bumps=spec_changed,
    has_status=True,
)
