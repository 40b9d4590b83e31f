"""Jobs and CronJobs: the generated selector, what stays fixed once a Job exists, their rows.

Nothing runs CronJobs here, and nobody reads what they say: of them only defaults and columns are known.
"""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_apimachinery.times import seconds
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import (
    MAX_INT32,
    check_not_negative,
    check_selector,
    immutable,
    selector_matches,
    unsupported,
)
from kube_embedded.builtins.common.metadata import LABEL
from kube_embedded.builtins.common.printing import (
    AGE,
    NAME,
    NONE,
    Cell,
    cell,
    human_duration,
    since,
    table,
    workload_cells,
)
from kube_embedded.builtins.common.rules import Rules, spec_changed
from kube_embedded.builtins.pod.defaults import default_template
from kube_embedded.builtins.pod.spec import check_template

_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_STEERING = ("nodeSelector", "tolerations", "schedulingGates")
_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _default_job(job: Object) -> None:
    spec = job["spec"]
    labels = spec["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = labels  # the same map: what is generated for the template shows in both
    _default_job_spec(spec)


def _default_job_spec(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    default_failure_policy(spec)
    default_template(spec["template"])


def default_failure_policy(spec: Object) -> None:
    for rule in spec.get("podFailurePolicy", {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def _on_create(job: Object, context: Context) -> None:
    """Labels and a selector that only this job's pods have, unless the user chose a selector."""
    meta, template = job["metadata"], job["spec"]["template"]["metadata"]
    if not job["spec"].get("manualSelector"):
        _generate_selector(job, template.setdefault("labels", {}))
    labels = template.get("labels")
    if labels and (not meta.get("labels") or meta["labels"] is labels):
        meta["labels"] = dict(labels)


def _generate_selector(job: Object, labels: dict[str, str]) -> None:
    name, uid = job["metadata"].get("name", ""), job["metadata"].get("uid", "")
    for key in _NAME_LABELS:
        labels.setdefault(key, name)
    for key in _UID_LABELS:
        labels.setdefault(key, uid)
    selector = job["spec"].setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(_UID_LABELS[1], uid)


def _check_create(job: Object) -> list[FieldError]:
    errors = _check_generated(job)
    errors += _check(job)
    spec = job["spec"]
    if spec["completionMode"] == "Indexed" and spec.get("completions", 0) > 0:
        host = f"{job['metadata']['name']}-{spec['completions'] - 1}"
        if LABEL.of_name(host):
            detail = f"will not able to create pod with invalid DNS label: {host}"
            errors.append(invalid("metadata.name", job["metadata"]["name"], detail))
    return errors


def _check_generated(job: Object) -> list[FieldError]:
    spec = job["spec"]
    if spec["manualSelector"] or "selector" not in spec:
        return []
    name, uid = job["metadata"].get("name", ""), job["metadata"].get("uid", "")
    expected = {_UID_LABELS[0]: uid, _NAME_LABELS[0]: name, _UID_LABELS[1]: uid, _NAME_LABELS[1]: name}
    labels = spec["template"]["metadata"].get("labels") or {}
    path = "spec.template.metadata.labels"
    errors: list[FieldError] = []
    for key, value in expected.items():
        if key not in labels:
            errors.append(required(f"{path}[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(f"{path}[{key}]", labels, f"must be '{value}'"))
    if not check_selector("", spec["selector"]) and not selector_matches(spec["selector"], expected):
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _check(job: Object) -> list[FieldError]:
    spec = job["spec"]
    errors = check_job_spec(spec, "spec")
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels")
    found = [required("spec.selector")] if selector is None else check_selector("spec.selector", selector)
    if selector is None or (not found and not selector_matches(selector, labels or {})):
        detail = "`selector` does not match template `labels`"
        found.append(invalid("spec.template.metadata.labels", labels, detail))
    return errors + found


def check_job_spec(spec: Object, path: str) -> list[FieldError]:
    errors = [error for name in _NUMBERS for error in check_not_negative(f"{path}.{name}", spec.get(name))]
    mode = spec["completionMode"]
    if mode not in ("NonIndexed", "Indexed"):
        errors.append(unsupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed" and "completions" not in spec:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if name in spec:
                errors.append(invalid(f"{path}.{name}", spec[name], "requires indexed completion mode"))
    errors += _check_replacement(spec, path)
    errors += check_template(spec["template"], f"{path}.template")
    return errors + _check_restart(spec, path)


def _check_replacement(spec: Object, path: str) -> list[FieldError]:
    policy, where = spec["podReplacementPolicy"], f"{path}.podReplacementPolicy"
    if "podFailurePolicy" in spec and policy != "Failed":
        return [unsupported(where, policy, ("Failed",))]
    allowed = ("Failed", "TerminatingOrFailed")
    return [] if policy in allowed else [unsupported(where, policy, allowed)]


def _check_restart(spec: Object, path: str) -> list[FieldError]:
    policy, where = spec["template"]["spec"].get("restartPolicy", ""), f"{path}.template.spec.restartPolicy"
    if policy in ("Always", ""):
        return [required(where, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [unsupported(where, policy, ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and policy != "Never":
        return [invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _check_update(job: Object, old: Object) -> list[FieldError]:
    spec, was = job["spec"], old["spec"]
    errors = _check(job)
    errors += _check_completions(spec, was)
    errors += immutable("spec.selector", spec.get("selector"), was.get("selector"))
    errors += _check_template_kept(job, old)
    for name in _FIXED:
        errors += immutable(f"spec.{name}", spec.get(name), was.get(name))
    return errors


def _check_completions(spec: Object, was: Object) -> list[FieldError]:
    new, old = spec.get("completions"), was.get("completions")
    if spec["completionMode"] != "Indexed":
        return immutable("spec.completions", new, old)
    if new == old or new is None or new == spec["parallelism"]:
        return []
    return [invalid("spec.completions", new, "can only be modified in tandem with spec.parallelism")]


def _check_template_kept(job: Object, old: Object) -> list[FieldError]:
    new, was = job["spec"]["template"], old["spec"]["template"]
    if new == was:
        return []
    suspended = bool(old["spec"].get("suspend"))
    startable = suspended and "startTime" not in (old.get("status") or {})
    if startable and _without_steering(new) == _without_steering(was):
        return []
    if suspended:
        return [invalid("spec.template.spec", new["spec"], "field is immutable")]
    return [invalid("spec.template", new, "field is immutable")]


def _without_steering(template: Object) -> Object:
    """The template without what may still change while the job is suspended."""
    pod = {key: value for key, value in template["spec"].items() if key not in _STEERING}
    affinity = {key: value for key, value in (pod.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
    for name in ("containers", "initContainers"):
        pod[name] = [{**one, "resources": None} for one in pod.get(name) or ()]
    return {"spec": pod, "affinity": affinity}


def _has(job: Object, condition: str) -> bool:
    found = (job.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == condition and one.get("status") == "True" for one in found)


def _state(job: Object) -> str:
    for condition, shown in _STATES:
        if _has(job, condition) if condition else "deletionTimestamp" in job["metadata"]:
            return shown
    return "Running"


def _completions(job: Object) -> str:
    spec, succeeded = job["spec"], (job.get("status") or {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{succeeded}/{spec['completions']}"
    return f"{succeeded}/1 of {spec['parallelism']}" if spec.get("parallelism", 0) > 1 else f"{succeeded}/1"


def _duration(job: Object, context: Context) -> str:
    status = job.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = seconds(status["completionTime"]) if status.get("completionTime") else context.now_s
    return human_duration(end - seconds(status["startTime"]))


JOBS = Rules(
    component="io.k8s.api.batch.v1.Job",
    table=table(
        NAME,
        cell("Status", _state),
        cell("Completions", _completions),
        Cell(Column("Duration"), _duration),
        AGE,
        *workload_cells(),
    ),
    defaults=_default_job,
    on_create=_on_create,
    check_create=_check_create,
    check_update=_check_update,
    fields=lambda job: {"status.successful": str((job.get("status") or {}).get("succeeded", 0))},
    bumps=spec_changed,
    has_status=True,
)


def _default_cron_job(obj: Object) -> None:
    spec = obj["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    default_failure_policy(spec["jobTemplate"]["spec"])
    default_template(spec["jobTemplate"]["spec"]["template"])


def _last_schedule(obj: Object, context: Context) -> str:
    last = (obj.get("status") or {}).get("lastScheduleTime")
    return since(last, context) if last else NONE


CRON_JOBS = Rules(
    component="io.k8s.api.batch.v1.CronJob",
    table=table(
        NAME,
        cell("Schedule", "spec.schedule"),
        cell("Timezone", "spec.timeZone", NONE),
        cell("Suspend", lambda obj: str(bool(obj["spec"].get("suspend"))), type="boolean"),
        cell("Active", lambda obj: len((obj.get("status") or {}).get("active") or ()), type="integer"),
        Cell(Column("Last Schedule"), _last_schedule),
        AGE,
        *workload_cells("spec.jobTemplate.spec"),
    ),
    defaults=_default_cron_job,
    bumps=spec_changed,
    has_status=True,
)
