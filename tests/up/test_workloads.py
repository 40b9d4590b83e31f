"""`spinney up` and the kinds of others: every example of a workload runs as it is (K1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cluster_kit.server import eventually
from stack_kit.spinney import Spinney

Up = Callable[..., Spinney]

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "workloads").glob("*.yaml"))


PODS = {
    "job": 8,
    "jobset": 9,
    "leader-worker-set": 8,
    "mpijob": 5,
    "pytorchjob": 8,
    "raycluster": 5,
    "segments": 16,
}
REAL = pytest.mark.real
DEADLINE_S = 150.0


def is_placed(running: Spinney, count: int) -> bool:
    pods = running.get("pods")["items"]
    return len(pods) == count and all(each["spec"].get("nodeName") for each in pods)


@pytest.mark.parametrize("how", [pytest.param((), id="embedded"), pytest.param(("--real",), id="real", marks=REAL)])
def test_k1_every_example_of_a_workload_runs_as_it_is(up: Up, how: tuple[str, ...]) -> None:
    running = up(*how).ready()
    assert [example.stem for example in EXAMPLES] == sorted(PODS)
    for example in EXAMPLES:
        name, count = example.stem, PODS[example.stem]
        running.kubectl("apply", "-f", str(example))
        eventually(partial(is_placed, running, count), f"the {count} pods of {name} have nodes", DEADLINE_S)
        running.kubectl("delete", "--wait", "-f", str(example))
        eventually(lambda: not running.get("pods")["items"], f"the pods of {name} are gone", DEADLINE_S)


def test_k1_without_the_kinds_of_others_they_are_not_served(up: Up) -> None:
    running = up("--no-third-party").ready()
    served = running.kubectl("api-resources", "-o", "name")
    assert "podcliquesets.grove.io" in served
    assert "pytorchjobs.kubeflow.org" not in served
