"""CronJobs."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from spinney.api.field_errors import FieldError, invalid, required
from spinney.serve.apiserver.builtins.cron import complaint
from spinney.serve.apiserver.builtins.jobs import check_job_spec, default_failure_policy
from spinney.serve.apiserver.builtins.pod_defaults import default_template
from spinney.serve.apiserver.builtins.printing import AGE, NAME, NONE, age, container_cells, selector_cell, since
from spinney.serve.apiserver.builtins.rules import Rules, spec_changed
from spinney.serve.apiserver.builtins.values import check_not_negative, unsupported
from spinney.serve.apiserver.resource import Column, Context, Object

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
    errors = _check_schedule(spec.get("schedule", ""))
    errors += check_not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    zone = spec.get("timeZone")
    if zone is not None and zone not in available_timezones():
        errors.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
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


def _check_schedule(schedule: str) -> list[FieldError]:
    path = "spec.schedule"
    if not schedule:
        return [required(path)]
    if "TZ" in schedule:
        return [invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")]
    found = complaint(schedule)
    return [invalid(path, schedule, found)] if found else []


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
