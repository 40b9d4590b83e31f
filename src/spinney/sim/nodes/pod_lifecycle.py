"""The life of a bound pod as a table of stages, the status that its kubelet reports, and the rule of `spinney initc`.

Pure: the time, and whether parents are up, are given. A life never goes back, but from a crash to another start.
Reported is only what a kubelet owns: conditions of others, the phase of an unbound pod and the QoS class are theirs.

    stage     leaves when                                             for
    WAITING   the start delay is over                                 INIT, or RUNNING without init containers
    INIT      each init container has run, one after another          RUNNING; DONE or STUCK when one fails
    RUNNING   the run time is over, or it crashes                     BACKOFF, or DONE when it is not restarted
    BACKOFF   10 s, doubled with every restart, at most 300 s         RUNNING
    STUCK     never: an image or an init container that cannot start
    DONE      never
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from kube_apimachinery.quantity import read_number
from kube_apimachinery.times import format_time
from spinney.api.labels import INIT_CONTAINER, PODCLIQUE, PODGANG
from spinney.sim.objects import (
    EXIT_CODE,
    FAIL,
    RUN_SECONDS,
    START_DELAY,
    Container,
    Json,
    Pod,
    Probe,
    condition,
    merged,
    parse_time,
)

_NAMES = (INIT_CONTAINER, "spinney-initc")
_FLAG = "--podcliques"


@dataclass(frozen=True, slots=True)
class Parent:
    """A clique that has to be up first, and with how many pods."""

    clique: str
    at_least: int


def is_initc(container: Container) -> bool:
    """Known by its name, or by the command `spinney initc`."""
    if container.name in _NAMES:
        return True
    words = container.command + container.args
    programs = [word.rsplit("/", 1)[-1] for word in words]
    return any(program in _NAMES for program in programs) or programs[:2] == ["spinney", "initc"]


def parents_of(container: Container) -> tuple[Parent, ...]:
    """The parents named in `--podcliques=<fqn>:<minAvailable>`, which may be repeated or hold several."""
    words = container.command + container.args
    values = [word.partition("=")[2] for word in words if word.startswith(f"{_FLAG}=")]
    values += [after for word, after in pairwise(words) if word == _FLAG]
    return tuple(_parent(part) for value in values for part in value.split(",") if part)


def _parent(text: str) -> Parent:
    clique, _, number = text.rpartition(":")
    least = read_number(number)
    return Parent(text, 1) if not clique or least is None else Parent(clique, least)


def parents_of_pod(pod: Pod) -> tuple[Parent, ...]:
    return tuple(parent for each in pod.spec.init_containers if is_initc(each) for parent in parents_of(each))


def may_start(parents: Iterable[Parent], pod: Pod, siblings: Iterable[Pod]) -> bool:
    """Whether every parent has enough Ready pods in the gang of `pod`; terminating pods do not count."""
    gang = pod.metadata.labels.get(PODGANG, "")
    ready: dict[str, int] = {}
    for other in siblings:
        labels = other.metadata.labels
        if labels.get(PODGANG, "") == gang and other.ready and not other.leaving:
            clique = labels.get(PODCLIQUE, "")
            ready[clique] = ready.get(clique, 0) + 1
    return all(ready.get(parent.clique, 0) >= parent.at_least for parent in parents)


_BACKOFF_S = 10.0
_MAX_BACKOFF_S = 300.0
_TERMINATED = 143
_SLEEP = re.compile(r"\bsleep\s+(infinity|inf|\d+(?:\.\d+)?)([smhd]?)\b")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


class Stage(Enum):
    WAITING = "waiting"
    INIT = "init"
    RUNNING = "running"
    BACKOFF = "backoff"
    STUCK = "stuck"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take where a pod does not say."""

    start_s: float = 0.5
    init_s: float = 0.2
    finish_s: float = 1.0
    stop_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Life:
    """Where a pod is. `since_s` is when the stage began, `init` how many init containers are behind it."""

    stage: Stage = Stage.WAITING
    since_s: float = 0.0
    began_s: float = 0.0
    init: int = 0
    ready: bool = False
    restarts: int = 0
    exit_code: int = 0
    ended_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """The life as of now, and when to look again; None: only when something happens."""

    life: Life
    wake_s: float | None


def advance(life: Life, pod: Pod, now_s: float, parents_up: bool, timing: Timing) -> Step:
    """Everything that is due by now, stage by stage."""
    while True:
        due_s = _due_s(life, pod, parents_up, timing)
        if life.stage is Stage.RUNNING and not life.ready:
            ready_s = life.since_s + ready_after_s(pod)
            if ready_s <= min(due_s, now_s):
                life = replace(life, ready=True)
            elif ready_s < due_s:
                return Step(life, ready_s if ready_s < math.inf else None)
        if due_s > now_s:
            return Step(life, due_s if due_s < math.inf else None)
        life = _leave(life, pod, due_s)


def crash(life: Life, pod: Pod, now_s: float, exit_code: int = 1) -> Life:
    """A running pod whose containers die now; any other stage is not touched."""
    return _end(life, pod, now_s, exit_code) if life.stage is Stage.RUNNING else life


def stop(life: Life, now_s: float) -> Life:
    """A pod whose containers are told to end, and do."""
    if life.stage is Stage.DONE:
        return life
    began_s = life.began_s or now_s
    return Life(Stage.DONE, now_s, began_s, life.init, False, life.restarts, _TERMINATED, now_s)


def _due_s(life: Life, pod: Pod, parents_up: bool, timing: Timing) -> float:
    """When the stage is over."""
    match life.stage:
        case Stage.WAITING:
            return life.since_s + _number(pod, START_DELAY, timing.start_s)
        case Stage.INIT:
            return life.since_s + _init_s(pod.spec.init_containers[life.init], parents_up, timing)
        case Stage.RUNNING:
            return life.since_s + run_s(pod, timing)
        case Stage.BACKOFF:
            return life.since_s + min(_BACKOFF_S * float(1 << min(life.restarts, 10)), _MAX_BACKOFF_S)
        case Stage.STUCK | Stage.DONE:
            return math.inf


def _leave(life: Life, pod: Pod, at_s: float) -> Life:
    """The stage after this one, entered at `at_s`."""
    match life.stage:
        case Stage.WAITING if pod.metadata.annotations.get(FAIL) == "image":
            return replace(life, stage=Stage.STUCK, since_s=at_s, began_s=at_s)
        case Stage.WAITING:
            return replace(life, stage=_after_init(pod, 0), since_s=at_s, began_s=at_s)
        case Stage.INIT if pod.metadata.annotations.get(FAIL) == "init":
            stage = Stage.DONE if pod.spec.restart_policy == "Never" else Stage.STUCK
            return replace(life, stage=stage, since_s=at_s, exit_code=1, ended_s=at_s)
        case Stage.INIT:
            return replace(life, stage=_after_init(pod, life.init + 1), since_s=at_s, init=life.init + 1)
        case Stage.RUNNING:
            return _end(life, pod, at_s, _exit_code(pod))
        case Stage.BACKOFF:
            return replace(life, stage=Stage.RUNNING, since_s=at_s, restarts=life.restarts + 1)
        case Stage.STUCK | Stage.DONE:
            raise AssertionError(f"{life.stage} is never left")


def _after_init(pod: Pod, done: int) -> Stage:
    return Stage.INIT if done < len(pod.spec.init_containers) else Stage.RUNNING


def _end(life: Life, pod: Pod, at_s: float, exit_code: int) -> Life:
    policy = pod.spec.restart_policy
    again = policy == "Always" or (policy == "OnFailure" and exit_code != 0)
    stage = Stage.BACKOFF if again else Stage.DONE
    return replace(life, stage=stage, since_s=at_s, ready=False, exit_code=exit_code, ended_s=at_s)


def _exit_code(pod: Pod) -> int:
    if pod.metadata.annotations.get(FAIL) == "crash":
        return int(_number(pod, EXIT_CODE, 1))
    return int(_number(pod, EXIT_CODE, 0))


def run_s(pod: Pod, timing: Timing) -> float:
    """How long the containers run: as annotated, as long as their `sleep`, for ever, or a moment if they should end."""
    crashes = pod.metadata.annotations.get(FAIL) == "crash"
    otherwise = 0.0 if crashes else max((_container_s(each, pod, timing) for each in pod.spec.containers), default=0.0)
    return _number(pod, RUN_SECONDS, otherwise)


def _container_s(container: Container, pod: Pod, timing: Timing) -> float:
    slept_s = sleep_s(container)
    if slept_s is not None:
        return slept_s
    stays = pod.spec.restart_policy == "Always" or "pause" in container.image
    return math.inf if stays else timing.finish_s


def _init_s(container: Container, parents_up: bool, timing: Timing) -> float:
    if is_initc(container):
        return 0.0 if parents_up else math.inf
    if container.restart_policy == "Always":
        return _probe_s(container.startup_probe)
    slept_s = sleep_s(container)
    return timing.init_s if slept_s is None else slept_s


def sleep_s(container: Container) -> float | None:
    """The seconds of a `sleep` in the command line, None without one."""
    found = _SLEEP.search(" ".join(container.command + container.args))
    if found is None:
        return None
    return math.inf if found[1].startswith("inf") else float(found[1]) * _UNIT_S[found[2]]


def ready_after_s(pod: Pod) -> float:
    """From the start of the containers to Ready: the slowest container's probes; never for a pod told to fail so."""
    if pod.metadata.annotations.get(FAIL) == "unready":
        return math.inf
    return max(
        (_probe_s(each.startup_probe) + _probe_s(each.readiness_probe) for each in pod.spec.containers), default=0.0
    )


def _probe_s(probe: Probe | None) -> float:
    return 0.0 if probe is None else probe.initial_delay_seconds + (probe.success_threshold - 1) * probe.period_seconds


def _number(pod: Pod, annotation: str, otherwise: float) -> float:
    """A non-negative number in an annotation; what is no number counts as absent."""
    try:
        value = float(pod.metadata.annotations[annotation])
    except (KeyError, ValueError):
        return otherwise
    return value if value >= 0 else otherwise


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
        "startTime": pod.status.start_time or format_time(life.began_s),
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
        "lastTransitionTime": since or format_time(now_s),
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
            state = {"running": {"startedAt": format_time(life.since_s)}}
            return _report(container, state, life, ready=life.ready, started=True)
        case Stage.BACKOFF:
            return _report(container, _waiting("CrashLoopBackOff"), life)
        case Stage.DONE if not _ran(pod, life):
            return _report(container, _waiting("PodInitializing"), life)
        case Stage.DONE:
            return _report(container, _terminated(life), life)


def _init_container(pod: Pod, container: Container, at: int, life: Life) -> Json:
    sidecar = container.restart_policy == "Always"
    started = format_time(life.began_s)
    if at > life.init or (at == life.init and life.stage is Stage.WAITING):
        return _report(container, _waiting("PodInitializing"), life, own=False)
    if at == life.init and life.stage is Stage.INIT:
        return _report(
            container, {"running": {"startedAt": format_time(life.since_s)}}, life, started=sidecar, own=False
        )
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
    return _ended(life.exit_code, format_time(life.began_s), format_time(life.ended_s))


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
