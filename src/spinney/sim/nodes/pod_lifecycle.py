"""The life of a bound pod as a table of stages: what it is doing, since when, and when it does the next thing.

Pure: the time, and whether parents are up, are given. A life never goes back, but from a crash to another start.

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
from dataclasses import dataclass, replace
from enum import Enum

from spinney.sim.nodes.initc import is_initc
from spinney.sim.objects import EXIT_CODE, FAIL, RUN_SECONDS, START_DELAY, Container, Pod, Probe

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
