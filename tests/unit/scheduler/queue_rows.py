"""The table of queues: a cluster, its queues, gangs that run, gangs that come, and who runs in the end.

A row is a line `what | nodes | queues | run | come | in the end`, of words:

- nodes: GPUs of each, `4 4` or `2x4`;
- queues: `name=quota`, then `/w2` weight, `/l8` limit, `/p200` priority, `/^x` parent;
- gangs: `name:queue:PODSxGPUS`, then `:m1` minimum (all of its pods), `:train` class, `@0,1` nodes where it starts. The
  first gang is the oldest;
- in the end: `name=pods`; gangs that are not named have none.

The rows are in `queue_rows.txt`. The behaviours are those that users of KAI know; where a row ends otherwise on
purpose, docs/drop-in.md says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CLASSES = {"low": 25, "train": 50, "inter": 75, "build": 100, "infer": 125}
"""From 100 on gangs are not preemptible."""


class Gang(NamedTuple):
    name: str
    queue: str
    pods: int
    gpus: int
    minimum: int
    priority: str
    nodes: tuple[int, ...]


class Share(NamedTuple):
    name: str
    quota: int
    weight: int = 1
    limit: int = -1
    priority: int = 100
    parent: str = ""


class Row(NamedTuple):
    what: str
    nodes: tuple[int, ...]
    queues: tuple[Share, ...]
    run: tuple[Gang, ...]
    come: tuple[Gang, ...]
    end: dict[str, int]


def read_rows(text: str) -> Iterator[Row]:
    table = ""
    for line in filter(None, text.splitlines()):
        if line.startswith("#"):
            table = line[1:].strip()
        else:
            yield _row(table, *[cell.strip() for cell in line.split("|")])


def _row(table: str, what: str, nodes: str, queues: str, run: str, come: str, end: str) -> Row:
    return Row(
        f"{table}: {what}",
        tuple([size for word in nodes.split() for size in _sizes(word)]),
        tuple([_share(word) for word in queues.split()]),
        tuple([_gang(word) for word in run.split()]),
        tuple([_gang(word) for word in come.split()]),
        {name: int(count) for name, count in (word.split("=") for word in end.split())},
    )


def _sizes(word: str) -> list[int]:
    count, times, size = word.rpartition("x")
    return [int(size)] * (int(count) if times else 1)


def _share(word: str) -> Share:
    first, *more = word.split("/")
    name, quota = first.split("=")
    found = Share(name, int(quota))
    for each in more:
        match each[0]:
            case "w":
                found = found._replace(weight=int(each[1:]))
            case "l":
                found = found._replace(limit=int(each[1:]))
            case "p":
                found = found._replace(priority=int(each[1:]))
            case "^":
                found = found._replace(parent=each[1:])
    return found


def _gang(word: str) -> Gang:
    word, _, at = word.partition("@")
    name, queue, size, *more = word.split(":")
    pods, gpus = (int(each) for each in size.split("x"))
    minimum, priority = pods, "train"
    for each in more:
        if each[0] == "m" and each[1:].isdigit():
            minimum = int(each[1:])
        else:
            priority = each
    return Gang(name, queue, pods, gpus, minimum, priority, tuple(int(node) for node in at.split(",")) if at else ())


ROWS = list(read_rows((Path(__file__).parent / "queue_rows.txt").read_text()))
