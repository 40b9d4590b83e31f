"""Rows of the table of queues, the same on the embedded and on a real API server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from contract.scheduler_stages import Hall, tree
from unit.scheduler.preemption_world import priority_class
from unit.scheduler.queue_rows import CLASSES, ROWS, Gang, Row, Share
from unit.scheduler.scheduler_world import podgroup, pods
from unit.scheduler.test_queue_shares import queue

Json = dict[str, Any]
TABLES = ("reclaim", "departments", "elastic", "preempt", "order")
AGES = ("whatever the age", "of equal ones the youngest goes", "the youngest of equal ones goes")


def _is_played(row: Row) -> bool:
    """Nobody makes pods anew here, ages are whole seconds, and nodes are alike."""
    table, _, what = row.what.partition(": ")
    is_placed = any(gang.nodes for gang in row.run)
    return table in TABLES and what not in AGES and len(row.nodes) == 1 and not is_placed and len(row.come) == 1


PLAYED = [row for number, row in enumerate(filter(_is_played, ROWS)) if number % 5 < 3]


def share(hall: Hall, told: Share) -> Json:
    parent = f"{hall.namespace}-{told.parent}" if told.parent else ""
    name = f"{hall.namespace}-{told.name}"
    return queue(name, told.quota, told.weight, told.limit, priority=told.priority, parentQueue=parent)


def start(hall: Hall, gang: Gang) -> None:
    spec = {"queue": f"{hall.namespace}-{gang.queue}", "priorityClassName": f"{hall.namespace}-{gang.priority}"}
    hall.make(podgroup(gang.name, gang.minimum, **spec), *pods(gang.name, gang.pods, gang.gpus))


def test_q_table_at_least_forty_rows_are_played_on_both_servers() -> None:
    assert len(PLAYED) >= 40


@pytest.mark.parametrize("row", PLAYED, ids=lambda row: row.what)
def test_q_table_who_runs_in_the_end(hall: Hall, row: Row) -> None:
    for name, value in CLASSES.items():
        body = priority_class(f"{hall.namespace}-{name}", value)
        hall.cluster.create("scheduling.k8s.io/v1/priorityclasses", body).ok(201)
    hall.make(*[share(hall, told) for told in row.queues])
    hall.build(tree(hosts=1, gpus=row.nodes[0]))
    for gang in row.run:
        start(hall, gang)
        hall.running(gang.name, gang.pods)
    for gang in row.come:
        start(hall, gang)

    for gang in row.come:
        if row.end.get(gang.name, 0) < gang.minimum:
            hall.says(gang.name, "")

    def check() -> bool:
        assert Counter(name.rpartition("-")[0] for name in hall.bound()) == Counter(row.end)
        return True

    hall.eventually(check, f"{row.end} are bound")
