"""Traces of several queues: who comes next, who is admitted, and who gives back what was lent (Q9)."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
import yaml
from click.testing import CliRunner

from spinney.api.kinds.queue import Queue
from spinney.cli.main import cli
from spinney.sim.replay.figures import figures
from spinney.sim.replay.queues import read_queues
from spinney.sim.replay.simulation import Outcome, Reclaimed, ReplayInputs, replay, replay_inputs
from spinney.sim.replay.trace import InputError, Job, Timing, Trace
from unit.replay.replay_kit import GPU, NODES, Book, described, setting

COST_S = 300


def queue(name: str, quota: int, limit: int = -1, **more: object) -> dict[str, object]:
    shares = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory")}
    shares["gpu"] = {"quota": quota, "overQuotaWeight": 1, "limit": limit}
    return {"kind": "Queue", "metadata": {"name": name}, "spec": {"resources": shares, **more}}


def queues(*made: dict[str, object]) -> tuple[Queue, ...]:
    return read_queues(yaml.safe_dump_all(made), "queues.yaml")


def rows(*given: tuple[int, int, int, str]) -> Trace:
    """Arrival, GPUs, seconds, queue."""
    jobs = [Job(f"{row[3]}{at}", row[0], row[2], row[1], queue=row[3]) for at, row in enumerate(given)]
    return Trace("trace.csv", Timing.SECONDS, tuple(sorted(jobs, key=lambda job: job.arrival_s)))


def staged(trace: Trace, shared: tuple[Queue, ...]) -> ReplayInputs:
    """Four hosts of eight GPUs."""
    return replay_inputs(described(1, 1, 4, 8), trace, resource=GPU, queues=shared)


def run(trace: Trace, shared: tuple[Queue, ...]) -> Outcome:
    return replay(staged(trace, shared), setting("binpack"))


def starts(outcome: Outcome) -> dict[str, int]:
    return {start.gang: start.at_s for start in outcome.starts}


BORROWED = rows(*[(at, 8, 1000, "a") for at in range(4)], (100, 8, 500, "b"), (100, 8, 500, "b"))


def test_q9_what_was_lent_is_reclaimed_from_the_youngest_and_they_run_for_the_rest_later() -> None:
    outcome = run(BORROWED, queues(queue("a", 16), queue("b", 16)))
    assert starts(outcome)["b4"] == starts(outcome)["b5"] == 100
    assert [(each.gang, each.queue, each.by) for each in outcome.reclaims] == [("a3", "a", "b4"), ("a2", "a", "b5")]
    ended = {entry.gang: entry.at_s for entry in outcome.log if type(entry).__name__ == "Left"}
    assert (ended["a0"], ended["b4"], ended["a3"]) == (1000, 600, 600 + 903 + COST_S)
    found = figures(staged(BORROWED, queues(queue("a", 16), queue("b", 16))), outcome)
    assert [(one.name, one.gangs, one.mean_s, one.reclaimed) for one in found.queues] == [
        ("a", 4, 0, 2),
        ("b", 2, 0, 0),
    ]
    assert (found.placed, found.gangs) == (6, 6)


def test_q9_without_queues_or_within_shares_nobody_is_reclaimed() -> None:
    assert run(BORROWED, ()).reclaims == []
    assert starts(run(BORROWED, ()))["b4"] == 1000
    alone = run(BORROWED, queues(queue("a", 32), queue("b", 0)))
    assert alone.reclaims == [] and starts(alone)["b4"] == 1000
    young = run(BORROWED, queues(queue("a", 16, reclaimMinRuntime="1h"), queue("b", 16)))
    assert young.reclaims == []


def test_q9_room_that_becomes_free_goes_to_the_queue_under_its_share_and_not_to_the_oldest() -> None:
    trace = rows(*[(at, 8, 1000, "a") for at in range(6)], (100, 8, 500, "b"), (100, 8, 500, "b"))
    outcome = run(trace, queues(queue("a", 16, reclaimMinRuntime="1h"), queue("b", 16)))
    assert (starts(outcome)["b6"], starts(outcome)["b7"]) == (1000, 1001)
    assert starts(outcome)["a4"] > 1001


def test_q9_a_limit_holds_and_what_exceeds_it_alone_is_never_placed() -> None:
    trace = rows((0, 8, 100, "a"), (0, 8, 100, "a"), (0, 24, 100, "a"), (0, 8, 100, "b"))
    outcome = run(trace, queues(queue("a", 0, limit=8), queue("b", 0)))
    assert (starts(outcome)["a0"], starts(outcome)["a1"], starts(outcome)["b3"]) == (0, 100, 0)
    [(gang, reason)] = outcome.impossible
    assert gang == "a2" and "Limit is 8 GPUs" in reason


@pytest.mark.parametrize("seed", range(12))
def test_q9_nothing_is_lost_or_taken_twice_whatever_the_trace(seed: int) -> None:
    dice = Random(seed)
    made = [
        (dice.randrange(3000), dice.choice([1, 4, 8, 16]), dice.randrange(50, 900), dice.choice("abc"))
        for _ in range(60)
    ]
    shared = queues(*(queue(name, dice.choice([0, 8, 16]), dice.choice([-1, -1, 24])) for name in "abc"))
    stage = staged(rows(*made), shared)
    outcome = replay(stage, setting("binpack"))
    assert outcome.reclaims
    assert Book(stage).follow(outcome, is_eager=False) == []
    for entry in outcome.log:
        if isinstance(entry, Reclaimed):
            assert entry.by[0] != entry.queue


def test_q9_files_that_can_not_be_used_are_refused_with_what_is_allowed() -> None:
    with pytest.raises(InputError, match=r"queues\.yaml: found no Queue"):
        read_queues("kind: Pod", "queues.yaml")
    with pytest.raises(InputError, match=r"queues\.yaml: "):
        read_queues("kind: Queue\nspec: 3", "queues.yaml")
    shared = queues(queue("team", 8), queue("a", 8, parentQueue="team"))
    with pytest.raises(InputError, match=r"gang b0, virtual_cluster: found 'b', allowed: a leaf queue .* \(a\)"):
        staged(rows((0, 1, 1, "b")), shared)
    with pytest.raises(InputError, match="found 'team'"):
        staged(rows((0, 1, 1, "team")), shared)


def test_q9_the_command_prints_what_each_queue_waited_and_lost(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(NODES.format(blocks=1, racks=1, hosts=4, gpus=8))
    (tmp_path / "queues.yaml").write_text(yaml.safe_dump_all([queue("a", 16), queue("b", 16)]))
    lines = [f"{job.arrival_s},{job.gpus},{job.length},{job.queue}" for job in BORROWED.jobs]
    (tmp_path / "trace.csv").write_text("\n".join(["arrival_s,gpus,duration_s,virtual_cluster", *lines]))
    files = [str(tmp_path / "trace.csv"), "--nodes", str(tmp_path / "nodes.yaml"), "--setting", "binpack"]
    shared = ["--queues", str(tmp_path / "queues.yaml")]
    shown = CliRunner().invoke(cli, ["replay", *files, *shared])
    assert shown.exit_code == 0, shown.output
    assert "reclaimed from queue a" in shown.stdout and "mean, queue b" in shown.stdout
    found = json.loads(CliRunner().invoke(cli, ["replay", *files, *shared, "-o", "json"]).stdout)["settings"][0]
    assert found["queues"] == [
        {"queue": "a", "placed": 4, "meanS": 0.0, "reclaimed": 2},
        {"queue": "b", "placed": 2, "meanS": 0.0, "reclaimed": 0},
    ]
    assert "queues" not in json.loads(CliRunner().invoke(cli, ["replay", *files, "-o", "json"]).stdout)["settings"][0]
