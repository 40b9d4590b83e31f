"""Sets under topology constraints on thirty small nodes, and where their pods have to be.

The behaviour is that which Grove's end-to-end tests ask for (TAS2 to TAS16, TAS23); manifests and words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contract.operator_stages import BLOCK, HOST, RACK, ZONE
from unit.operator.operator_world import clique, group, podcliqueset

Json = dict[str, Any]

TOPOLOGY = "grove-topology"
LEVELS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOST}
POOL = "example.com/pool"
NODE_MEMORY_MIB = 150
NODES = f"""
levels:
- {{name: zone, label: {ZONE}, count: 2}}
- {{name: block, label: {BLOCK}, count: [2, 1]}}
- {{name: rack, label: {RACK}, count: [2, 2, 1]}}
- {{name: host, count: [7, 7, 7, 7, 2]}}
capacity: {{cpu: 8, memory: {NODE_MEMORY_MIB}Mi, pods: 110}}
labels: {{{POOL}: workers}}
taints: [{{key: {POOL}, value: workers, effect: NoSchedule}}]
"""
"""Blocks of 14, 14 and 2 nodes; a node holds three pods of 40 MiB. Tight packing tries the block of two first."""

GANG, CLIQUE, GROUP, REPLICA, GROUP_REPLICA = (
    "grove.io/podgang",
    "grove.io/podclique",
    "grove.io/podcliquescalinggroup",
    "grove.io/podcliqueset-replica-index",
    "grove.io/podcliquescalinggroup-replica-index",
)


@dataclass(frozen=True, slots=True)
class Together:
    """So many pods have these labels, and all of them are in one domain of the level."""

    level: str
    pods: int
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """A sub-group: its minimum (of sub-groups where it is a parent), its parent, and the levels it asks for."""

    minimum: int
    required: str = ""
    preferred: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """What a PodGroup asks for, and its sub-groups by name."""

    parts: Mapping[str, Part]
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A set, what is true of its pods, and its PodGroups. `nodes`: only so many may be used."""

    made: Json
    pods: int
    together: tuple[Together, ...]
    groups: Mapping[str, Group]
    nodes: int = 30

    @property
    def name(self) -> str:
        return str(self.made["metadata"]["name"])


def packed(required: str = "", preferred: str = "") -> Json:
    """A constraint in the newer spelling, with the topology named."""
    pack = {key: domain for key, domain in (("required", required), ("preferred", preferred)) if domain}
    return {"topologyConstraint": {"topologyName": TOPOLOGY, "pack": pack}}


def pods_of(memory_mib: int, apart_from: str = "") -> Json:
    """Pods for the nodes of the pool, each on another host than those of one PodClique if it is named."""
    tolerated = {"key": POOL, "operator": "Equal", "value": "workers", "effect": "NoSchedule"}
    in_pool = {"matchExpressions": [{"key": POOL, "operator": "In", "values": ["workers"]}]}
    affinity: Json = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [in_pool]}}
    }
    if apart_from:
        chosen = {"matchExpressions": [{"key": CLIQUE, "operator": "In", "values": [apart_from]}]}
        term = {"labelSelector": chosen, "topologyKey": HOST}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    requests = {"memory": f"{memory_mib}Mi"}
    container = {"name": "main", "image": "serve", "resources": {"requests": requests}}
    return {
        "schedulerName": "kai-scheduler",
        "terminationGracePeriodSeconds": 5,
        "tolerations": [tolerated],
        "affinity": affinity,
        "containers": [container],
    }


def workers(name: str, replicas: int, memory_mib: int = 40, apart_from: str = "", **more: Any) -> Json:
    labels = {"kai.scheduler/queue": "default-queue"}
    return clique(name, replicas, podSpec=pods_of(memory_mib, apart_from), labels=labels, **more)


def _hierarchy() -> Row:
    cliques = [workers(name, 2, **packed("host")) for name in ("prefill", "decode")]
    pair = group("pair", ["prefill", "decode"], replicas=2, minimum=2, **packed("rack"))
    base = "hierarchy-0"
    parts: dict[str, Part] = {f"{base}-pair-{index}": Part(2, RACK) for index in range(2)}
    for index in range(2):
        for name in ("prefill", "decode"):
            parts[f"{base}-pair-{index}-{name}"] = Part(2, HOST, parent=f"{base}-pair-{index}")
    return Row(
        podcliqueset("hierarchy", cliques, [pair], **packed("block")),
        8,
        (
            Together(BLOCK, 8),
            *(Together(RACK, 4, {GROUP_REPLICA: str(index)}) for index in range(2)),
            *(Together(HOST, 2, {CLIQUE: name}) for name, part in parts.items() if part.parent),
        ),
        {base: Group(parts, BLOCK)},
        nodes=8,
    )


def _scaled_by_groups(base: str, memory_mib: int) -> Row:
    """Three replicas of a group of which one makes the set work: each in a rack of its own choice, all in one block."""
    scaled = {
        f"{base}-0-pair-{index}": Group({f"{base}-0-pair-{index + 1}-worker": Part(2)}, RACK) for index in range(2)
    }
    first = {f"{base}-0-pair-0": Part(1, RACK), f"{base}-0-pair-0-worker": Part(2, parent=f"{base}-0-pair-0")}
    return Row(
        podcliqueset(
            base,
            [workers("worker", 2, memory_mib)],
            [group("pair", ["worker"], replicas=3, minimum=1, **packed("rack"))],
            **packed("block"),
        ),
        6,
        (Together(BLOCK, 6), *(Together(RACK, 2, {GROUP_REPLICA: str(index)}) for index in range(3))),
        {f"{base}-0": Group(first, BLOCK), **scaled},
    )


def _many_scaled() -> Row:
    """Ten replicas of a group of which three make the set work: each on one host, all in one block."""
    base = "many"
    name = f"{base}-0-pairs"
    first = {f"{name}-{index}-worker": Part(2, HOST) for index in range(3)}
    scaled = {f"{name}-{index}": Group({f"{name}-{index + 3}-worker": Part(2, HOST)}, BLOCK) for index in range(7)}
    return Row(
        podcliqueset(
            base,
            [workers("worker", 2, **packed("host"))],
            [group("pairs", ["worker"], replicas=10, minimum=3)],
            **packed("block"),
        ),
        20,
        (Together(BLOCK, 20), *(Together(HOST, 2, {GROUP_REPLICA: str(index)}) for index in range(10))),
        {f"{base}-0": Group(first, BLOCK), **scaled},
    )


_DISAGGREGATED = {"decoder": ("dworker", "dleader"), "prefill": ("pworker", "pleader")}


def _disaggregated(name: str, replicas: int, memory_mib: int, apart: bool, on_host: str = "") -> Row:
    """Two groups of leader and worker, twice each, and two routers; `on_host`: a clique with a constraint."""

    def made(of: str, pods: int, path: str) -> Json:
        own = packed("host") if of == on_host else {}
        return workers(of, pods, memory_mib, f"{name}-0-{path}" if apart else "", **own)

    cliques = [made(each, 1, f"{of}-0-{each}") for of, members in _DISAGGREGATED.items() for each in members]
    groups = [group(of, list(members), replicas=2, **packed("rack")) for of, members in _DISAGGREGATED.items()]
    together: list[Together] = []
    podgroups: dict[str, Group] = {}
    for index in range(replicas):
        base = f"{name}-{index}"
        together += [Together(BLOCK, 10, {REPLICA: str(index)}), Together(ZONE, 2, {CLIQUE: f"{base}-router"})]
        first: dict[str, Part] = {}
        for of, members in _DISAGGREGATED.items():
            first[f"{base}-{of}-0"] = Part(2, RACK)
            own = {each: HOST if each == on_host else "" for each in members}
            first |= {f"{base}-{of}-0-{each}": Part(1, own[each], parent=f"{base}-{of}-0") for each in members}
            podgroups[f"{base}-{of}-0"] = Group({f"{base}-{of}-1-{each}": Part(1, own[each]) for each in members}, RACK)
            together += [Together(RACK, 2, {GROUP: f"{base}-{of}", GROUP_REPLICA: str(number)}) for number in range(2)]
        podgroups[base] = Group({**first, f"{base}-router": Part(2)}, BLOCK)
    body = podcliqueset(name, [*cliques, made("router", 2, "router")], groups, replicas=replicas, **packed("block"))
    return Row(body, 10 * replicas, tuple(together), podgroups)


def _preferences() -> Row:
    base = "wishes-0"
    worker = f"{base}-workers-0-worker"
    parts = {
        f"{base}-workers-0": Part(1, preferred=HOST),
        worker: Part(1, parent=f"{base}-workers-0"),
        f"{base}-router": Part(1, preferred=HOST),
    }
    return Row(
        podcliqueset(
            "wishes",
            [workers("worker", 1, 10), workers("router", 1, 10, **packed(preferred="host"))],
            [group("workers", ["worker"], replicas=2, **packed(preferred="host"))],
            **packed("block", "rack"),
        ),
        3,
        (Together(BLOCK, 3),),
        {
            base: Group(parts, BLOCK, RACK),
            f"{base}-workers-0": Group({f"{base}-workers-1-worker": Part(1)}, preferred=HOST),
        },
    )


ROWS: dict[str, Row] = {
    "TAS2 cliques with constraints of their own": Row(
        podcliqueset(
            "own",
            [
                workers("in-rack", 3, 20, "own-0-in-rack", **packed("rack")),
                workers("in-block", 4, 20, "own-0-in-block", **packed("block")),
            ],
        ),
        7,
        (Together(RACK, 3, {CLIQUE: "own-0-in-rack"}), Together(BLOCK, 4, {CLIQUE: "own-0-in-block"})),
        {"own-0": Group({"own-0-in-rack": Part(3, RACK), "own-0-in-block": Part(4, BLOCK)})},
    ),
    "TAS3 the set alone has a constraint": Row(
        podcliqueset(
            "whole",
            [workers("worker", 1, 10, "whole-0-pair-0-worker"), workers("router", 2, 10, "whole-0-router")],
            [group("pair", ["worker"], replicas=2, minimum=2)],
            **packed("rack"),
        ),
        4,
        (Together(RACK, 4), Together(RACK, 2, {CLIQUE: "whole-0-router"})),
        {
            "whole-0": Group(
                {"whole-0-router": Part(2), "whole-0-pair-0-worker": Part(1), "whole-0-pair-1-worker": Part(1)}, RACK
            )
        },
    ),
    "TAS4 a group alone has a constraint": Row(
        podcliqueset(
            "grouped",
            [workers("worker", 1, 10, "grouped-0-pair-0-worker"), workers("router", 2, 10, "grouped-0-router")],
            [group("pair", ["worker"], replicas=2, minimum=2, **packed("rack"))],
        ),
        4,
        (Together(RACK, 2, {GROUP: "grouped-0-pair"}),),  # more than the constraints ask: the gang is kept close
        {
            "grouped-0": Group(
                {
                    "grouped-0-pair-0": Part(1, RACK),
                    "grouped-0-pair-1": Part(1, RACK),
                    "grouped-0-pair-0-worker": Part(1, parent="grouped-0-pair-0"),
                    "grouped-0-pair-1-worker": Part(1, parent="grouped-0-pair-1"),
                    "grouped-0-router": Part(2),
                }
            )
        },
    ),
    "TAS5 a clique on one host": Row(
        podcliqueset("hosted", [workers("worker", 2, **packed("host"))]),
        2,
        (Together(HOST, 2),),
        {"hosted-0": Group({"hosted-0-worker": Part(2, HOST)})},
    ),
    "TAS6 a set in one zone": Row(
        podcliqueset("zoned", [workers("worker", 4, apart_from="zoned-0-worker")], **packed("zone")),
        4,
        (Together(ZONE, 4),),
        {"zoned-0": Group({"zoned-0-worker": Part(4)}, ZONE)},
    ),
    "TAS7 no constraint": Row(
        podcliqueset(
            "free",
            [workers("worker", 2, 10, "free-0-pair-0-worker")],
            [group("pair", ["worker"], replicas=2, minimum=2)],
        ),
        4,
        (),
        {"free-0": Group({"free-0-pair-0-worker": Part(2), "free-0-pair-1-worker": Part(2)})},
    ),
    "TAS8 block, rack and host": _hierarchy(),
    "TAS9 block and host": Row(
        podcliqueset("two-levels", [workers("worker", 2, **packed("host"))], **packed("block")),
        2,
        (Together(HOST, 2),),
        {"two-levels-0": Group({"two-levels-0-worker": Part(2, HOST)}, BLOCK)},
    ),
    "TAS10 scaled gangs in racks of one block": _scaled_by_groups("scaled", 40),
    "TAS11 rack and host without a set's": Row(
        podcliqueset(
            "inner",
            [workers("worker", 2, **packed("host"))],
            [group("pair", ["worker"], replicas=2, minimum=2, **packed("rack"))],
        ),
        4,
        tuple(Together(HOST, 2, {GROUP_REPLICA: str(index)}) for index in range(2)),
        {
            "inner-0": Group(
                {
                    **{f"inner-0-pair-{index}": Part(1, RACK) for index in range(2)},
                    **{
                        f"inner-0-pair-{index}-worker": Part(2, HOST, parent=f"inner-0-pair-{index}")
                        for index in range(2)
                    },
                }
            )
        },
    ),
    "TAS12 ten replicas, three of them base": _many_scaled(),
    "TAS14 two replicas of a set": Row(
        podcliqueset("twice", [workers("worker", 2, 20, "twice-0-worker")], replicas=2, **packed("rack")),
        4,
        tuple(Together(RACK, 2, {REPLICA: str(index)}) for index in range(2)),
        {f"twice-{index}": Group({f"twice-{index}-worker": Part(2)}, RACK) for index in range(2)},
    ),
    "TAS15 disaggregated": _disaggregated("parts", 1, 10, apart=True),
    "TAS16 disaggregated, two replicas, three levels": _disaggregated("halls", 2, 40, apart=False, on_host="pworker"),
    "TAS23 preferred levels": _preferences(),
    "scaled gangs that the smallest block has no room for": _scaled_by_groups("larger", 60),
    "one replica of a set that the smallest block has no room for": _disaggregated("hall", 1, 40, apart=False),
}

TOO_LARGE = podcliqueset("too-large", [workers("worker", 10, 500)], **packed("rack"))
"""Ten pods for one rack, each larger than a node (TAS13)."""
