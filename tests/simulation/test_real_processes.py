"""R9 in small: schedulers that are killed, stopped past their lease or led by two, and what the server recorded."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster_kit.server import Server, eventually
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from simulation.watch_record import WatchRecord
from spinney.whatif.inputs.nodes import load_nodes
from stack_kit.bare import bare_server
from stack_kit.judging import Judging, create_set, judged, of_a_set
from stack_kit.schedulers import SchedulerProgram, Schedulers
from unit.operator.topologies import RACK
from unit.scheduler.scheduler_world import NODES, TOPOLOGY, podgroup, pods

Json = dict[str, Any]
PODGROUPS = "scheduling.run.ai/v2alpha2/podgroups"
LOST = ',to="standby"'
FATES = ("kill", "stop", "kill", "stop")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with bare_server(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def judging(server: Server, tmp_path: Path) -> Iterator[Judging]:
    """Admission as it is installed, by a webhook with the rights of its role; the authorizer is on."""
    with judged(server, tmp_path) as found:
        yield found


def _furnish(server: Server) -> None:
    cluster = Space(server, "")
    cluster.create("kai.scheduler/v1alpha1/topologies", TOPOLOGY).ok(201)
    for node in load_nodes(NODES):
        cluster.create("nodes", node).ok(201)
        ready = {"type": "Ready", "status": "True"}
        status = {**node["status"], "conditions": [ready]}
        cluster.patch("nodes", node["metadata"]["name"], {"status": status}, sub="status").ok(200)


def _ask(space: Space, number: int) -> None:
    """Gangs that fit: what the round before asked for is deleted first."""
    for old in space.list("pods")["items"]:
        space.delete("pods", old["metadata"]["name"], gracePeriodSeconds=0)
    for each in range(3):
        name = f"g{number}-{each}"
        space.create(PODGROUPS, podgroup(name, 3, required=RACK)).ok(201)
        for member in pods(name, 3, 4):
            space.create("pods", of_a_set(member)).ok(201)


def _all_bound(space: Space) -> bool:
    found = space.list("pods")["items"]
    plans = [each for each in space.list(PODGROUPS)["items"] if "spinney.dev/plan" in each["metadata"]["annotations"]]
    return len(found) == 9 and all(each["spec"].get("nodeName") for each in found) and not plans


def _stands_by(leader: SchedulerProgram, before: float) -> bool:
    assert not leader.has_ended, leader.log
    lost = leader.figure("spinney_leadership_changes_total", LOST) > before
    return lost and leader.is_ready() and not leader.leads()


def test_r9_whatever_happens_to_leaders_the_record_of_the_server_breaks_no_promise(
    server: Server, judging: Judging, tmp_path: Path
) -> None:
    space = Space(server, "default")
    with WatchRecord(server) as record:
        _furnish(server)
        create_set(space)
        crew = Schedulers(server, tmp_path)
        try:
            for number, fate in enumerate(FATES):
                leader = eventually(crew.leader, "somebody leads", 120)
                _ask(space, number)
                lost = leader.figure("spinney_leadership_changes_total", LOST)
                leader.send(signal.SIGKILL if fate == "kill" else signal.SIGSTOP)
                crew.lose(leader)
                eventually(lambda: crew.filled() and _all_bound(space), f"round {number}: everybody has a node", 120)
                if fate == "stop":
                    eventually(crew.leader, "somebody else leads", 120)
                    leader.send(signal.SIGCONT)
                    eventually(partial(_stands_by, leader, lost), "the old leader stands by again", 120)
                    crew.take_back(leader)
        finally:
            crew.end()
        assert crew.refused() == []
        assert judging.answered() > 3 * len(FATES)
        assert "forbidden" not in judging.log
        eventually(lambda: record.judge().binds >= 9 * len(FATES), "the watches have told everything")
        dog = record.judge()
        assert dog.violations == []
        assert dog.binds == 9 * len(FATES)
        assert dog.plans >= 3 * len(FATES)
