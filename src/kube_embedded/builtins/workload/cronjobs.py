"""CronJobs. Their schedules are read only as far as needed to say what is wrong with one."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import check_not_negative, unsupported
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, age, container_cells, selector_cell, since
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.workload.jobs import check_job_spec, default_failure_policy

_WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: index + 1 for index, name in enumerate(_MONTHS)}),
    (0, 6, {name: index for index, name in enumerate(_DAYS)}),
)


class _Wrong(ValueError):
    """The schedule cannot be read."""


def schedule_error(schedule: str) -> str:
    """What is wrong with a schedule, in the words of the parser that Kubernetes uses; empty when nothing is."""
    if schedule.startswith("@"):
        known = schedule in _WORDS or schedule.startswith("@every ")
        return "" if known else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_BOUNDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for text, (low, high, names) in zip(fields, _BOUNDS, strict=True):
            for part in text.split(","):
                _check_part(part, low, high, names)
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _check_part(part: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = part.split("/")
    ends = span.split("-")
    if len(steps) > 1:
        raise _Wrong(f"too many slashes: {part}")
    if len(ends) > 2:
        raise _Wrong(f"too many hyphens: {part}")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(ends[0], names)
        end = _number(ends[1], names) if len(ends) == 2 else high if steps else start
    if steps and _number(steps[0], {}) == 0:
        raise _Wrong(f"step of range should be a positive number: {part}")
    if start < low:
        raise _Wrong(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise _Wrong(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise _Wrong(f"beginning of range ({start}) beyond end of range ({end}): {part}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.lstrip("+-").isdigit()):
        raise _Wrong(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise _Wrong(f"negative number ({number}) not allowed: {text}")
    return number


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
    found = schedule_error(schedule)
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
