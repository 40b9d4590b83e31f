"""The status of a pod as its simulated kubelet reports it, made from where the pod is in its life.

Pure. Reports only what a kubelet owns: conditions of others, the phase of an unbound pod and the QoS class are theirs.
"""

from __future__ import annotations

from spinney.sim.nodes.pod_lifecycle import Life, Stage
from spinney.sim.objects import FAIL, Container, Json, Pod, condition, merged
from spinney.sim.times import parse_time, rfc3339


def phase_of(life: Life) -> str:
    match life.stage:
        case Stage.WAITING | Stage.INIT | Stage.STUCK:
            return "Pending"
        case Stage.RUNNING | Stage.BACKOFF:
            return "Running"
        case Stage.DONE:
            return "Succeeded" if life.exit_code == 0 else "Failed"


def status_of(pod: Pod, life: Life, now_s: float, pod_ip: str, host_ip: str) -> Json:
    """The status to merge in: what a kubelet says, and the conditions of others beside its own."""
    status: Json = {
        "phase": phase_of(life),
        "startTime": pod.status.start_time or rfc3339(life.began_s),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "conditions": merged(pod.status.conditions, conditions_of(pod, life, now_s)),
        "containerStatuses": [_container(pod, each, life) for each in pod.spec.containers],
    }
    if pod.spec.init_containers:
        statuses = [_init_container(pod, each, at, life) for at, each in enumerate(pod.spec.init_containers)]
        status["initContainerStatuses"] = statuses
    return status


def conditions_of(pod: Pod, life: Life, now_s: float) -> list[Json]:
    """Our conditions; one that keeps its status keeps its time."""
    gates = all(condition(pod.status.conditions, gate.condition_type) == "True" for gate in pod.spec.readiness_gates)
    initialized = life.stage in (Stage.RUNNING, Stage.BACKOFF) or (life.stage is Stage.DONE and _ran(pod, life))
    done = life.stage is Stage.DONE
    wanted = {
        "PodReadyToStartContainers": (not done, "", ""),
        "Initialized": (initialized, "PodCompleted" if done else "", _unfinished(pod, life, initialized)),
        "ContainersReady": (life.ready, *_why_not_ready(pod, life)),
        "Ready": (life.ready and gates, *(_why_not_ready(pod, life) if gates else ("ReadinessGatesNotReady", ""))),
        "PodScheduled": (True, "", ""),
    }
    known = {each["type"]: each for each in pod.status.conditions}
    return [
        _condition(known.get(kind, {}), kind, met, reason if done or not met else "", "" if met else message, now_s)
        for kind, (met, reason, message) in wanted.items()
    ]


def _condition(before: Json, kind: str, met: bool, reason: str, message: str, now_s: float) -> Json:
    status = "True" if met else "False"
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    found: Json = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since or rfc3339(now_s),
    }
    return found | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def _ran(pod: Pod, life: Life) -> bool:
    return life.init >= len(pod.spec.init_containers)


def _unfinished(pod: Pod, life: Life, initialized: bool) -> str:
    if initialized:
        return ""
    names = " ".join(each.name for each in pod.spec.init_containers[life.init :])
    return f"containers with incomplete status: [{names}]"


def _why_not_ready(pod: Pod, life: Life) -> tuple[str, str]:
    if life.ready:
        return "", ""
    if life.stage is Stage.DONE:
        return ("PodCompleted" if life.exit_code == 0 else "PodFailed"), ""
    names = " ".join(each.name for each in pod.spec.containers)
    return "ContainersNotReady", f"containers with unready status: [{names}]"


def _container(pod: Pod, container: Container, life: Life) -> Json:
    match life.stage:
        case Stage.WAITING:
            return _report(container, _waiting("ContainerCreating"), life)
        case Stage.INIT:
            return _report(container, _waiting("PodInitializing"), life)
        case Stage.STUCK:
            image = pod.metadata.annotations.get(FAIL) == "image"
            return _report(container, _waiting("ImagePullBackOff" if image else "PodInitializing"), life)
        case Stage.RUNNING:
            state = {"running": {"startedAt": rfc3339(life.since_s)}}
            return _report(container, state, life, ready=life.ready, started=True)
        case Stage.BACKOFF:
            return _report(container, _waiting("CrashLoopBackOff"), life)
        case Stage.DONE if not _ran(pod, life):
            return _report(container, _waiting("PodInitializing"), life)
        case Stage.DONE:
            return _report(container, _terminated(life), life)


def _init_container(pod: Pod, container: Container, at: int, life: Life) -> Json:
    sidecar = container.restart_policy == "Always"
    started = rfc3339(life.began_s)
    if at > life.init or (at == life.init and life.stage is Stage.WAITING):
        return _report(container, _waiting("PodInitializing"), life, own=False)
    if at == life.init and life.stage is Stage.INIT:
        return _report(container, {"running": {"startedAt": rfc3339(life.since_s)}}, life, started=sidecar, own=False)
    if at == life.init and life.stage is Stage.STUCK:
        reason = "PodInitializing" if pod.metadata.annotations.get(FAIL) == "image" else "CrashLoopBackOff"
        return _report(container, _waiting(reason), life, own=False)
    if at == life.init:
        return _report(container, _terminated(life), life, own=False)
    if sidecar and life.stage is not Stage.DONE:
        return _report(container, {"running": {"startedAt": started}}, life, ready=True, started=True, own=False)
    return _report(container, _ended(0, started, started), life, ready=not sidecar, own=False)


def _waiting(reason: str) -> Json:
    return {"waiting": {"reason": reason}}


def _terminated(life: Life) -> Json:
    return _ended(life.exit_code, rfc3339(life.began_s), rfc3339(life.ended_s))


def _ended(exit_code: int, started: str, finished: str) -> Json:
    reason = "Completed" if exit_code == 0 else "Error"
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": finished}}


def _report(
    container: Container, state: Json, life: Life, ready: bool = False, started: bool = False, own: bool = True
) -> Json:
    """One container's status; `own` are the main containers, whose restarts are counted."""
    crashed = own and life.ended_s and life.stage is not Stage.DONE
    return {
        "name": container.name,
        "image": container.image,
        "imageID": container.image,
        "state": state,
        "lastState": _terminated(life) if crashed else {},
        "ready": ready,
        "started": started,
        "restartCount": life.restarts if own else 0,
    }


def says(pod: Pod, status: Json) -> bool:
    """Whether the pod's status says this already, as far as anybody acts on it."""
    if pod.status.phase != status["phase"] or pod.status.pod_ip != status["podIP"]:
        return False
    ready = next(each["status"] for each in status["conditions"] if each["type"] == "Ready")
    if condition(pod.status.conditions, "Ready") != ready:
        return False
    return all(
        [(each.name, each.ready, bool(each.started), each.restart_count) for each in seen]
        == [(each["name"], each["ready"], each["started"], each["restartCount"]) for each in wanted]
        for seen, wanted in (
            (pod.status.container_statuses, status["containerStatuses"]),
            (pod.status.init_container_statuses, status.get("initContainerStatuses", [])),
        )
    )


def recall(pod: Pod, now_s: float) -> Life:
    """The life of a pod from what its status says, for a kubelet that has just come up."""
    statuses, inits = pod.status.container_statuses, pod.status.init_container_statuses
    began_s = parse_time(pod.status.start_time) or now_s
    if not statuses:
        return Life(since_s=now_s)
    done = len(pod.spec.init_containers)
    restarts = max((each.restart_count for each in statuses), default=0)
    if pod.status.phase == "Pending":
        done = sum(each.ready for each in inits)
        return Life(Stage.INIT if done < len(pod.spec.init_containers) else Stage.WAITING, now_s, began_s, done)
    if not all(each.started for each in statuses):
        return Life(Stage.BACKOFF, now_s, began_s, done, restarts=restarts, exit_code=1, ended_s=now_s)
    running = [each.state.running.started_at for each in statuses if each.state.running is not None]
    since_s = max((parse_time(stamp) or now_s for stamp in running), default=now_s)
    return Life(Stage.RUNNING, since_s, began_s, done, all(each.ready for each in statuses), restarts)
