"""The row of a pod in `kubectl get pods`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spinney.serve.apiserver.builtins.printing import NONE, age, seconds, since, text
from spinney.serve.apiserver.resource import Column, Context, Object

COLUMNS = (
    Column("Name", format="name"),
    Column("Ready"),
    Column("Status"),
    Column("Restarts"),
    Column("Age"),
    Column("IP", priority=1),
    Column("Node", priority=1),
    Column("Nominated Node", priority=1),
    Column("Readiness Gates", priority=1),
)


@dataclass(slots=True)
class _Tally:
    """What is counted while walking over the container statuses."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Object) -> None:
        self.restarts += status.get("restartCount", 0)
        finished = (status.get("lastState") or {}).get("terminated", {}).get("finishedAt")
        if finished and (not self.last_restart or seconds(finished) > seconds(self.last_restart)):
            self.last_restart = finished


def row(pod: Object, context: Context) -> list[Any]:
    spec, status = pod["spec"], pod.get("status") or {}
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    tally = _tally(spec, status, sidecars)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            tally.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            tally.reason = "Terminating"
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart:
        restarts = f"{tally.restarts} ({since(tally.last_restart, context)} ago)"
    addresses = status.get("podIPs") or [{}]
    return [
        pod["metadata"]["name"],
        f"{tally.ready}/{total}",
        tally.reason,
        restarts,
        age(pod, context),
        text(addresses[0].get("ip"), NONE),
        text(spec.get("nodeName"), NONE),
        text(status.get("nominatedNodeName"), NONE),
        _readiness_gates(spec, status),
    ]


def _tally(spec: Object, status: Object, sidecars: set[str]) -> _Tally:
    conditions = status.get("conditions") or ()
    tally = _Tally(status.get("reason") or status.get("phase", ""))
    if any(one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated" for one in conditions):
        tally.reason = "SchedulingGated"
    waiting = _init_reason(spec, status, sidecars, tally)
    if waiting:
        tally.reason = waiting
        if not _is_true(conditions, "Initialized"):
            return tally
    tally.restarts, tally.last_restart = 0, ""
    for one in status.get("initContainerStatuses") or ():
        if one["name"] in sidecars:
            tally.count_restarts(one)
    _main_reason(status, conditions, tally)
    return tally


def _init_reason(spec: Object, status: Object, sidecars: set[str], tally: _Tally) -> str:
    """Why the pod is still initialising; empty when it is not."""
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        tally.count_restarts(one)
        state = one.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if one["name"] in sidecars and one.get("started"):
            tally.ready += bool(one.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_ended_reason(ended)}"
        reason = state.get("waiting", {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(spec.get('initContainers') or ())}"
    return ""


def _ended_reason(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _main_reason(status: Object, conditions: Any, tally: _Tally) -> None:
    running, failure = False, ""
    for one in reversed(status.get("containerStatuses") or ()):
        tally.count_restarts(one)
        state = one.get("state") or {}
        if state.get("waiting", {}).get("reason"):
            tally.reason = state["waiting"]["reason"]
        elif "terminated" in state:
            tally.reason = _ended_reason(state["terminated"])
            if state["terminated"].get("exitCode", 0) != 0:
                failure = tally.reason
        elif one.get("ready") and "running" in state:
            running = True
            tally.ready += 1
    if tally.reason == "Completed":
        if running and _is_true(conditions, "Ready"):
            tally.reason = "Running"
        elif failure:
            tally.reason = failure
        elif running:
            tally.reason = "NotReady"


def _is_true(conditions: Any, kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates")
    if not gates:
        return NONE
    passed = sum(_is_true(status.get("conditions") or (), gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}"
