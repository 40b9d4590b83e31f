"""Job: pods until enough of them have succeeded, or too many have failed.

Pure. Successes and failures once reported are never taken back, also when their pods are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube_apimachinery.times import format_time
from spinney.api.labels import JOB_COMPLETION_INDEX, JOB_NAME
from spinney.sim.controllers.children import expendable_first, pod_for
from spinney.sim.controllers.effects import Create, Decision, Delete, Effect, ref_of, report
from spinney.sim.controllers.replicaset import NewName
from spinney.sim.objects import JOBS, PODS, Json, Pod, parse_time

_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


@dataclass(frozen=True, slots=True)
class Tally:
    """Where a Job stands."""

    active: tuple[Pod, ...]
    succeeded: int
    failed: int
    completed: frozenset[int]
    """The indexes that are done, for an Indexed Job."""


def decide(job: Json, pods: Sequence[Pod], now_s: float, new_name: NewName) -> Decision:
    if job["metadata"].get("deletionTimestamp"):
        return Decision()
    if finished(job):
        return _expire(job, now_s)
    tally = _tally(job, pods)
    end = _end(job, tally, now_s)
    if end is not None:
        return _finish(job, tally, now_s, *end)
    if job["spec"].get("suspend"):
        effects = _drop(job, tally.active)
        return Decision((*effects, *_report(job, tally, now_s, suspended=True)))
    return Decision((*_scale(job, tally, new_name), *_report(job, tally, now_s, suspended=False)), _deadline_s(job))


def finished(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _tally(job: Json, pods: Sequence[Pod]) -> Tally:
    status = job.get("status") or {}
    active = tuple(pod for pod in pods if not pod.finished and not pod.leaving)
    failed = max(sum(pod.status.phase == "Failed" for pod in pods), status.get("failed", 0))
    if not _indexed(job):
        succeeded = max(sum(pod.status.phase == "Succeeded" for pod in pods), status.get("succeeded", 0))
        return Tally(active, succeeded, failed, frozenset())
    done = {index for pod in pods if pod.status.phase == "Succeeded" and (index := index_of(pod)) is not None}
    completed = frozenset(done | set(parse_indexes(status.get("completedIndexes", ""))))
    return Tally(active, len(completed), failed, completed)


def _end(job: Json, tally: Tally, now_s: float) -> tuple[str, str, str] | None:
    """The condition that ends the Job, with reason and message; None while it goes on."""
    spec = job["spec"]
    if tally.failed > spec.get("backoffLimit", 6):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline_s = _deadline_s(job)
    if deadline_s is not None and now_s >= deadline_s:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    completions = spec.get("completions")
    if completions is None:
        enough = tally.succeeded > 0 and not tally.active
    else:
        enough = tally.succeeded >= completions
    return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods") if enough else None


def _deadline_s(job: Json) -> float | None:
    limit = job["spec"].get("activeDeadlineSeconds")
    started = parse_time((job.get("status") or {}).get("startTime"))
    return None if limit is None or started is None or job["spec"].get("suspend") else started + limit


def _scale(job: Json, tally: Tally, new_name: NewName) -> list[Effect]:
    spec = job["spec"]
    wanted = spec.get("parallelism", 1)
    completions = spec.get("completions")
    if completions is not None:
        wanted = min(wanted, completions - tally.succeeded)
    elif tally.succeeded:
        wanted = min(wanted, len(tally.active))
    if len(tally.active) > wanted:
        return _drop(job, expendable_first(tally.active)[: len(tally.active) - wanted])
    missing = wanted - len(tally.active)
    if not _indexed(job):
        return [_create(job, new_name(f"{job['metadata']['name']}-")) for _ in range(missing)]
    taken = tally.completed | {index_of(pod) for pod in tally.active}
    free = [index for index in range(completions or 0) if index not in taken][:missing]
    return [_create(job, new_name(f"{job['metadata']['name']}-{index}-"), index) for index in free]


def _create(job: Json, name: str, index: int | None = None) -> Create:
    metadata = job["metadata"]
    labels = {
        JOB_NAME: metadata["name"],
        "job-name": metadata["name"],
        _CONTROLLER_UID: metadata["uid"],
        "controller-uid": metadata["uid"],
    }
    ref = PODS.ref(name, metadata["namespace"])
    if index is None:
        return Create(ref, pod_for(job, name, labels))
    place = {JOB_COMPLETION_INDEX: str(index)}
    spec = job["spec"]["template"]["spec"]
    containers = {
        part: [_with_index(each) for each in spec[part]] for part in ("initContainers", "containers") if spec.get(part)
    }
    return Create(
        ref, pod_for(job, name, labels | place, place, {"hostname": f"{metadata['name']}-{index}", **containers})
    )


def _with_index(container: Json) -> Json:
    """A container that finds its index in its environment."""
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{JOB_COMPLETION_INDEX}']"}}
    others = [each for each in container.get("env") or () if each.get("name") != "JOB_COMPLETION_INDEX"]
    return {**container, "env": [*others, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]}


def _drop(job: Json, pods: Iterable[Pod]) -> list[Effect]:
    return [Delete(PODS.ref(pod.metadata.name, job["metadata"]["namespace"]), pod.metadata.uid) for pod in pods]


def _finish(job: Json, tally: Tally, now_s: float, kind: str, reason: str, message: str) -> Decision:
    """Active pods go first; the end is reported when they are on their way out."""
    criterion = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    stamp = format_time(now_s)
    ends = [
        {
            "type": each,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastProbeTime": stamp,
            "lastTransitionTime": stamp,
        }
        for each in (criterion, kind)
    ]
    before = (job.get("status") or {}).get("conditions") or []
    kept = [each for each in before if each["type"] not in (criterion, kind)]
    status = {**_counts(job, tally), "active": 0, "ready": 0, "conditions": [*kept, *ends]}
    status.setdefault("startTime", stamp)
    if kind == "Complete":
        status["completionTime"] = stamp
    return Decision((*_drop(job, tally.active), *report(JOBS, job, status)))


def _report(job: Json, tally: Tally, now_s: float, suspended: bool) -> tuple[Effect, ...]:
    before = job.get("status") or {}
    status = _counts(job, tally)
    if suspended:
        status |= {"active": 0, "ready": 0}
    elif "startTime" not in before:
        status["startTime"] = format_time(now_s)
    conditions = before.get("conditions") or []
    was = any(each["type"] == "Suspended" and each["status"] == "True" for each in conditions)
    if was != suspended:
        status["conditions"] = [
            *(each for each in conditions if each["type"] != "Suspended"),
            {
                "type": "Suspended",
                "status": "True" if suspended else "False",
                "reason": "JobSuspended" if suspended else "JobResumed",
                "message": "Job suspended" if suspended else "Job resumed",
                "lastProbeTime": format_time(now_s),
                "lastTransitionTime": format_time(now_s),
            },
        ]
    return report(JOBS, job, status)


def _counts(job: Json, tally: Tally) -> Json:
    counts: Json = {
        "active": len(tally.active),
        "ready": sum(pod.ready for pod in tally.active),
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }
    if _indexed(job) and tally.completed:
        counts["completedIndexes"] = spell_indexes(tally.completed)
    started = (job.get("status") or {}).get("startTime")
    return counts | ({"startTime": started} if started else {})


def _expire(job: Json, now_s: float) -> Decision:
    """A finished Job with a time to live goes when it is over."""
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None:
        return Decision()
    ends = [parse_time(each["lastTransitionTime"]) or now_s for each in job["status"]["conditions"]]
    due_s = max(ends) + ttl_s
    if now_s < due_s:
        return Decision(again_s=due_s)
    return Decision((Delete(ref_of(JOBS, job), job["metadata"]["uid"], propagation="Background"),))


def _indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(JOB_COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else None


def parse_indexes(text: str) -> list[int]:
    """`0-2,5` as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return found


def spell_indexes(indexes: Iterable[int]) -> str:
    """Numbers as `0-2,5`."""
    spans: list[list[int]] = []
    for index in sorted(indexes):
        if spans and spans[-1][1] == index - 1:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
