"""The life of a simulated pod, stage by stage, as pure functions of time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.sim.nodes.pod_lifecycle import (
    Life,
    Stage,
    Timing,
    advance,
    crash,
    is_initc,
    may_start,
    parents_of_pod,
    phase_of,
    status_of,
)
from spinney.sim.objects import Pod

T0 = 1_767_225_600.0
TIMING = Timing(start_s=1.0, init_s=2.0, finish_s=3.0)


def make_pod(annotations: dict[str, str] | None = None, conditions: list[Any] | None = None, **spec: Any) -> Pod:
    spec.setdefault("containers", [{"name": "main", "image": "serve"}])
    return msgspec.convert(
        {
            "metadata": {"namespace": "ns", "name": "p", "uid": "u", "annotations": annotations or {}},
            "spec": {"nodeName": "n", **spec},
            "status": {"phase": "Pending", "conditions": conditions or []},
        },
        Pod,
    )


def at(pod: Pod, after_s: float, parents_up: bool = True, life: Life | None = None) -> Life:
    return advance(life or Life(since_s=T0), pod, T0 + after_s, parents_up, TIMING).life


def wake(pod: Pod, after_s: float, parents_up: bool = True) -> float | None:
    woken = advance(Life(since_s=T0), pod, T0 + after_s, parents_up, TIMING).wake_s
    return None if woken is None else woken - T0


def test_a_plain_pod_starts_and_is_ready_in_one_step() -> None:
    pod = make_pod()
    assert at(pod, 0.9).stage is Stage.WAITING
    assert wake(pod, 0) == 1.0
    life = at(pod, 1.0)
    assert (life.stage, life.ready) == (Stage.RUNNING, True)
    assert wake(pod, 1.0) is None


def test_the_start_delay_can_be_annotated() -> None:
    assert wake(make_pod({"spinney.dev/sim-start-delay": "7.5"}), 0) == 7.5


def test_an_annotation_that_is_no_number_is_passed_over() -> None:
    assert wake(make_pod({"spinney.dev/sim-start-delay": "soon"}), 0) == 1.0


def test_readiness_waits_for_the_probe_of_the_slowest_container() -> None:
    pod = make_pod(
        containers=[
            {"name": "a", "readinessProbe": {"initialDelaySeconds": 5}},
            {"name": "b", "readinessProbe": {"initialDelaySeconds": 8, "successThreshold": 2, "periodSeconds": 4}},
        ]
    )
    assert at(pod, 1.0).ready is False
    assert wake(pod, 1.0) == 13.0
    assert at(pod, 13.0).ready is True


def test_readiness_waits_for_the_startup_probe_first() -> None:
    probes = {"startupProbe": {"initialDelaySeconds": 20}, "readinessProbe": {"initialDelaySeconds": 5}}
    assert wake(make_pod(containers=[{"name": "a", **probes}]), 1.0) == 26.0


def test_init_containers_run_one_after_another() -> None:
    pod = make_pod(initContainers=[{"name": "i0"}, {"name": "i1", "command": ["sh", "-c", "sleep 10"]}])
    assert [at(pod, s).init for s in (1, 2.9, 3, 12.9, 13)] == [0, 0, 1, 1, 2]
    assert at(pod, 12.9).stage is Stage.INIT
    assert at(pod, 13).stage is Stage.RUNNING


def test_a_sidecar_does_not_hold_up_the_next_container() -> None:
    pod = make_pod(initContainers=[{"name": "proxy", "restartPolicy": "Always"}])
    life = at(pod, 1.0)
    assert life.stage is Stage.RUNNING
    (sidecar,) = status_of(pod, life, T0, "10.244.0.1", "172.16.0.1")["initContainerStatuses"]
    assert "running" in sidecar["state"]
    assert sidecar["ready"] is True


def test_a_waiting_initc_waits_until_its_parents_are_up() -> None:
    pod = make_pod(initContainers=[{"name": "grove-initc", "args": ["--podcliques=a-0-leader:1"]}])
    assert at(pod, 1000, parents_up=False).stage is Stage.INIT
    assert wake(pod, 1000, parents_up=False) is None
    assert at(pod, 1000, parents_up=True).stage is Stage.RUNNING


def test_a_pod_of_a_job_succeeds_after_a_while() -> None:
    pod = make_pod(restartPolicy="Never")
    assert at(pod, 3.9).stage is Stage.RUNNING
    assert (at(pod, 4).stage, phase_of(at(pod, 4))) == (Stage.DONE, "Succeeded")


RUN_TIMES: dict[str, tuple[dict[str, Any], float | None]] = {
    "sleep in the command": ({"containers": [{"name": "a", "command": ["sleep", "30"]}]}, 31.0),
    "sleep in a shell": ({"containers": [{"name": "a", "command": ["sh", "-c"], "args": ["echo; sleep 2m"]}]}, 121.0),
    "sleep infinity": ({"containers": [{"name": "a", "args": ["sleep", "infinity"]}]}, None),
    "pause": ({"containers": [{"name": "a", "image": "registry.k8s.io/pause:3.10"}]}, None),
    "the annotation wins": (
        {
            "annotations": {"spinney.dev/sim-run-seconds": "5"},
            "containers": [{"name": "a", "command": ["sleep", "30"]}],
        },
        6.0,
    ),
}


@pytest.mark.parametrize("case", RUN_TIMES)
def test_how_long_a_pod_runs(case: str) -> None:
    spec, ends = RUN_TIMES[case]
    assert wake(make_pod(**spec, restartPolicy="Never"), 1.0) == ends


def test_a_crashing_pod_that_may_restart_backs_off_twice_as_long_each_time() -> None:
    pod = make_pod({"spinney.dev/sim-fail": "crash"})
    assert (at(pod, 1).stage, at(pod, 1).restarts) == (Stage.BACKOFF, 0)
    assert at(pod, 10.9).restarts == 0
    assert at(pod, 11).restarts == 1
    assert at(pod, 30.9).restarts == 1
    assert at(pod, 31).restarts == 2


def test_a_crashing_pod_that_may_not_restart_fails() -> None:
    pod = make_pod({"spinney.dev/sim-fail": "crash", "spinney.dev/sim-exit-code": "42"}, restartPolicy="Never")
    life = at(pod, 1)
    status = status_of(pod, life, T0 + 1, "10.244.0.1", "172.16.0.1")
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42


def test_a_crash_on_request_restarts_the_container() -> None:
    pod = make_pod()
    down = crash(at(pod, 1), pod, T0 + 100)
    status = status_of(pod, down, T0 + 100, "10.244.0.1", "172.16.0.1")
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    up = at(pod, 110, life=down)
    assert (up.stage, up.ready, up.restarts) == (Stage.RUNNING, True, 1)


@pytest.mark.parametrize(
    ("fail", "policy", "stage", "phase"),
    [
        ("image", "Always", Stage.STUCK, "Pending"),
        ("init", "Always", Stage.STUCK, "Pending"),
        ("init", "Never", Stage.DONE, "Failed"),
        ("unready", "Always", Stage.RUNNING, "Running"),
    ],
)
def test_a_pod_fails_as_it_is_told(fail: str, policy: str, stage: Stage, phase: str) -> None:
    pod = make_pod({"spinney.dev/sim-fail": fail}, restartPolicy=policy, initContainers=[{"name": "i"}])
    life = at(pod, 1e6)
    assert (life.stage, phase_of(life), life.ready) == (stage, phase, False)


def conditions(pod: Pod, life: Life, now_s: float) -> dict[str, tuple[str, str]]:
    status = status_of(pod, life, now_s, "10.244.0.1", "172.16.0.1")
    return {each["type"]: (each["status"], each["lastTransitionTime"]) for each in status["conditions"]}


def test_a_condition_that_stays_keeps_its_time() -> None:
    old = "2025-12-31T23:00:00Z"
    pod = make_pod(conditions=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": old}])
    found = conditions(pod, at(pod, 1), T0 + 1)
    assert found["PodScheduled"] == ("True", old)
    assert found["Ready"] == ("True", "2026-01-01T00:00:01Z")


def test_a_readiness_gate_holds_back_ready_but_not_the_containers() -> None:
    pod = make_pod(readinessGates=[{"conditionType": "example.com/open"}])
    found = conditions(pod, at(pod, 1), T0 + 1)
    assert (found["ContainersReady"][0], found["Ready"][0]) == ("True", "False")


def test_all_five_conditions_are_reported() -> None:
    pod = make_pod()
    assert sorted(conditions(pod, at(pod, 1), T0)) == [
        "ContainersReady",
        "Initialized",
        "PodReadyToStartContainers",
        "PodScheduled",
        "Ready",
    ]


def sibling(clique: str, gang: str = "g", ready: bool = True, deleted: bool = False) -> Pod:
    return msgspec.convert(
        {
            "metadata": {
                "labels": {"grove.io/podclique": clique, "grove.io/podgang": gang},
                "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
            },
            "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
        },
        Pod,
    )


def waiting_for(*args: str) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"labels": {"grove.io/podgang": "g"}},
            "spec": {"initContainers": [{"name": "grove-initc", "args": list(args)}]},
        },
        Pod,
    )


INITC: dict[str, tuple[list[Pod], bool]] = {
    "nobody there": ([], False),
    "enough": ([sibling("a"), sibling("a"), sibling("b")], True),
    "one too few": ([sibling("a"), sibling("b")], False),
    "one not ready": ([sibling("a"), sibling("a", ready=False), sibling("b")], False),
    "one of another gang": ([sibling("a"), sibling("a", gang="h"), sibling("b")], False),
    "one on its way out": ([sibling("a"), sibling("a", deleted=True), sibling("b")], False),
}


@pytest.mark.parametrize("case", INITC)
def test_initc_counts_ready_pods_of_its_gang(case: str) -> None:
    siblings, expected = INITC[case]
    pod = waiting_for("--podcliques=a:2", "--podcliques", "b:1")
    assert may_start(parents_of_pod(pod), pod, siblings) is expected


def test_several_parents_may_stand_in_one_flag() -> None:
    assert parents_of_pod(waiting_for("--podcliques=a:2,b:1")) == parents_of_pod(
        waiting_for("--podcliques=a:2", "--podcliques=b:1")
    )


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"name": "grove-initc"}, True),
        ({"name": "x", "command": ["/usr/bin/spinney", "initc"]}, True),
        ({"name": "x", "command": ["spinney"], "args": ["initc", "--podcliques=a:1"]}, True),
        ({"name": "x", "command": ["/grove-initc"]}, True),
        ({"name": "x", "command": ["spinney", "place"]}, False),
    ],
)
def test_an_initc_is_known_by_name_or_command(container: dict[str, Any], expected: bool) -> None:
    pod = make_pod(initContainers=[container])
    assert is_initc(pod.spec.init_containers[0]) is expected
