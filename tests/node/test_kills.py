"""R9 with roles as pods: whoever is killed, and however often, the record of the API server breaks no promise."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from cluster_kit.server import eventually
from node.installation import (
    NAMESPACE,
    PATIENCE,
    PATIENCE_S,
    ROLES,
    Installation,
    clique,
    container,
    of_set,
    podcliqueset,
)
from simulation.watch_record import WatchRecord
from spinney.sim.kubernetes.assets import StartFailed
from spinney.sim.kubernetes.node.machines import Machine
from stack_kit.bare import server_of

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.timeout(3600)]

KILLS = 50
GANGS, PODS = 4, 3


def kill(machine: Machine, role: str) -> int:
    """Every process of the role on this node; how many there were."""
    with suppress(StartFailed):  # none
        found = machine.run("pgrep", "-f", f"spinney run {role}").split()
        machine.run("pkill", "-9", "-f", f"spinney run {role}")
        return len(found)
    return 0


def renew(installed: Installation) -> None:
    """Pods that were killed twice make way for new ones: kubelet would wait longer and longer before the next start."""
    for pod in installed.pods("-n", NAMESPACE):
        if pod["status"]["containerStatuses"][0]["restartCount"] > 1:
            installed.kubectl("-n", NAMESPACE, "delete", "pod", pod["metadata"]["name"], PATIENCE)
    installed.await_roles()


def test_r9_fifty_kills_of_roles_in_bursts_of_gangs_break_no_promise(installed: Installation, tmp_path: Path) -> None:
    dice = random.Random(19)
    installed.kubectl("-n", NAMESPACE, "scale", "deploy", "--all", "--replicas=2")
    installed.await_roles()
    killed, rounds = 0, 0
    with WatchRecord(server_of(installed.cluster.plane, tmp_path)) as record:
        while killed < KILLS:
            names = [f"burst-{rounds}-{number}" for number in range(GANGS)]
            installed.apply(*(podcliqueset(name, clique("w", PODS, container())) for name in names))
            for role in dice.sample(ROLES, 3):
                killed += kill(dice.choice(installed.cluster.machines), role)
            for name in names:
                installed.ready(of_set(name), PODS)
            rounds += 1
            installed.await_roles()
            renew(installed)
            installed.kubectl("delete", "podcliqueset", *names, PATIENCE)
        eventually(
            lambda: record.judge().binds >= rounds * GANGS * PODS, "the watches have told everything", PATIENCE_S
        )
        dog = record.judge()
    assert dog.violations == []
    installed.kubectl("-n", NAMESPACE, "scale", "deploy", "--all", "--replicas=1")
