"""Gangs drawn by seeded dice: flat and nested, elastic, tied, gated, of mixed sizes, in queues and of priorities."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from unit.operator.operator_world import clique, group, podcliqueset
from unit.operator.topologies import BLOCK, RACK, ZONE, packed
from unit.scheduler.scheduler_world import GPU, constraint, pod, podgroup

Json = dict[str, Any]

LEVELS = ("", ZONE, BLOCK, RACK)
SIZES = (1, 2, 4, 8)
CLASSES = {"low": 20, "middle": 60, "high": 90, "keep": 120}
QUEUES = ("default-queue", "small", "wide")
GATE: dict[str, Any] = {"schedulingGates": [{"name": "example.com/later"}]}


@dataclass(slots=True)
class Drawn:
    """A gang that was made: what its next pods look like, by leaf."""

    name: str
    sizes: dict[str, int]
    made: int = 0
    gated: list[str] = field(default_factory=list)
    more: Json = field(default_factory=dict)

    def next_pod(self, leaf: str, gpus: int | None = None, *, gated: bool = False) -> Json:
        name = f"{self.name}-{self.made}"
        self.made += 1
        if gated:
            self.gated.append(name)
        size = self.sizes[leaf] if gpus is None else gpus
        return pod(name, self.name, size, subgroup=leaf, **{**self.more, **(GATE if gated else {})})


def draw_gang(dice: Random, name: str, bases: list[Drawn]) -> tuple[Drawn, list[Json]]:
    """The gang, and what has to be applied for it, in some order."""
    spec: Json = {"queue": dice.choice(QUEUES) if dice.random() < 0.4 else "default-queue"}
    if dice.random() < 0.5:
        spec["priorityClassName"] = dice.choice(sorted(CLASSES))
    if bases and dice.random() < 0.2:
        spec["annotations"] = {"spinney.dev/tied-to": f"{dice.choice(bases).name},{dice.choice((BLOCK, ZONE))}"}
    shape = dice.random()
    if shape < 0.55:
        drawn, objects = _flat(dice, name, spec)
    elif shape < 0.85:
        drawn, objects = _nested(dice, name, spec)
    else:
        drawn, objects = _some_of_several(dice, name, spec)
    if dice.random() < 0.3:
        dice.shuffle(objects)
    if dice.random() < 0.15:
        objects = objects[:-1]  # somebody is late
    return drawn, objects


def _flat(dice: Random, name: str, spec: Json) -> tuple[Drawn, list[Json]]:
    minimum = dice.choice((1, 1, 2, 2, 3, 4))
    extra = dice.choice((0, 0, 0, 1, 2))
    drawn = Drawn(name, {"": dice.choice(SIZES)})
    levels = _wishes(dice)
    mixed = dice.random() < 0.25
    gates = dice.random() < 0.15
    members = [
        drawn.next_pod("", dice.choice(SIZES) if mixed else None, gated=gates and dice.random() < 0.5)
        for _ in range(minimum + extra)
    ]
    return drawn, [podgroup(name, minimum, **levels, **spec), *members]


def _nested(dice: Random, name: str, spec: Json) -> tuple[Drawn, list[Json]]:
    """Two layers: groups with a level each, leaves with a narrower one."""
    drawn = Drawn(name, {})
    parts: list[Json] = []
    outer = dice.choice((0, 1, 2))
    for upper in range(dice.choice((1, 2))):
        if dice.random() < 0.5:
            leaf = f"leaf-{upper}"
            drawn.sizes[leaf] = dice.choice(SIZES)
            parts.append({"name": leaf, "minMember": dice.choice((1, 2)), **_at(dice, outer)})
            continue
        parts.append({"name": f"part-{upper}", **_at(dice, outer)})
        for lower in range(dice.choice((1, 2))):
            leaf = f"leaf-{upper}-{lower}"
            drawn.sizes[leaf] = dice.choice(SIZES)
            parts.append(
                {"name": leaf, "parent": f"part-{upper}", "minMember": dice.choice((1, 2)), **_at(dice, outer + 1)}
            )
    mins = {part["name"]: part["minMember"] for part in parts if "minMember" in part}
    spec = {**spec, "subGroups": parts, **constraint(LEVELS[outer] if outer else "")}
    members = [drawn.next_pod(leaf) for leaf, least in mins.items() for _ in range(least + (dice.random() < 0.2))]
    return drawn, [podgroup(name, sum(mins.values()), **spec), *members]


def _some_of_several(dice: Random, name: str, spec: Json) -> tuple[Drawn, list[Json]]:
    """minSubGroup: some of the leaves suffice."""
    drawn = Drawn(name, {f"leaf-{number}": dice.choice(SIZES) for number in range(dice.choice((2, 3)))})
    parts = [{"name": leaf, "minMember": dice.choice((1, 2)), **_at(dice, 2)} for leaf in drawn.sizes]
    manifest = podgroup(name, 1, **spec, subGroups=parts, minSubGroup=dice.randint(1, len(parts)))
    del manifest["spec"]["minMember"]
    return drawn, [manifest, *[drawn.next_pod(part["name"]) for part in parts for _ in range(part["minMember"])]]


def _wishes(dice: Random) -> Json:
    required, preferred = dice.choice(LEVELS), dice.choice(LEVELS) if dice.random() < 0.4 else ""
    if required and preferred and LEVELS.index(preferred) <= LEVELS.index(required):
        preferred = ""
    return {"required": required, "preferred": preferred}


def _at(dice: Random, broadest: int) -> Json:
    """A constraint no broader than a level; or none."""
    if dice.random() < 0.3:
        return {}
    return constraint(LEVELS[min(dice.randint(max(broadest, 1), 3), 3)])


def draw_set(dice: Random, name: str) -> Json:
    """A PodCliqueSet: lone cliques, or a scaling group whose replicas come in gangs of their own."""
    size = dice.choice((2, 4, 8))
    workers = clique("w", dice.choice((1, 2)), podSpec=_asking(size), **_pack(dice, "rack"))
    if dice.random() < 0.5:
        return podcliqueset(name, [workers, clique("r", 1, podSpec=_asking(0))], **_pack(dice, "block"))
    leader = clique("l", 1, podSpec=_asking(size))
    pair = group("g", ["l", "w"], dice.choice((1, 2)), 1, **_pack(dice, "block"))
    return podcliqueset(name, [leader, workers], [pair], **_pack(dice, "zone"))


def _pack(dice: Random, domain: str) -> Json:
    return {"topologyConstraint": packed(domain)} if dice.random() < 0.6 else {}


def _asking(gpus: int) -> Json:
    amounts = {GPU: str(gpus)} if gpus else {}
    return {"containers": [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]}
