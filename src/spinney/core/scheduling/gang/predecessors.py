"""Where the pods of a gang run or ran, so that a replaced pod returns to the node of its predecessor (G13).

The places are noted on the PodGroup as soon as its pods are bound: they outlive the pods and the scheduler. A pod
succeeds the one that had its number; where pods have none, any of its sub-group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.labels import KUBEFLOW_REPLICA_TYPE
from spinney.api.placement.problem import NodeTerm, Term
from spinney.core.scheduling.gang.members import index_of, leaf_of
from spinney.core.scheduling.plan import PlanError, positions, read_runs, write_runs

LONGEST_END_S = 120
"""A pod that may take longer to terminate is not waited for: its replacement goes elsewhere at once."""

_MOST_PODS = 100_000


class Place(NamedTuple):
    """`line`: pods that are numbered together, or replace each other. `number` None: they have no numbers."""

    line: str
    number: int | None
    node: str


class Slot(NamedTuple):
    """What one pod after another takes. `twin` tells apart the pods without numbers that were on one node."""

    line: str
    number: int | None
    node: str = ""
    twin: int = 0


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A place without a pod that stays there. `left`: the pod that left or leaves it, if it is known."""

    slot: Slot
    node: str
    left: Pod | None = None
    successor: Pod | None = None


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pods: int
    leaves: list[str]
    leaf: str
    index: str
    nodes: list[str]
    node: str


def encode(noted: Iterable[Place]) -> str:
    """One line of JSON, in columns as a plan has them."""
    rows = sorted(noted, key=lambda place: (place.line, -1 if place.number is None else place.number, place.node))
    leaves, nodes = (list(dict.fromkeys(column)) for column in ([row.line for row in rows], [row.node for row in rows]))
    record = _Record(
        pods=len(rows),
        leaves=leaves,
        leaf=write_runs(positions(leaves, [row.line for row in rows])),
        index=write_runs([0 if row.number is None else row.number + 1 for row in rows]),
        nodes=nodes,
        node=write_runs(positions(nodes, [row.node for row in rows])),
    )
    return msgspec.json.encode(record).decode()


def decode(text: str) -> tuple[Place, ...]:
    """The places; none if the text cannot be read: then replacements are placed like new pods."""
    try:
        record = msgspec.json.decode(text, type=_Record)
        if not 0 <= record.pods <= _MOST_PODS:
            return ()
        leaf, index, node = (
            read_runs(column, record.pods, name)
            for column, name in ((record.leaf, "leaf"), (record.index, "index"), (record.node, "node"))
        )
        rows = zip(leaf, index, node, strict=True)
        return tuple([Place(record.leaves[a], b - 1 if b else None, record.nodes[c]) for a, b, c in rows])
    except (PlanError, msgspec.DecodeError, IndexError, RecursionError):
        return ()


def place_of(pod: Pod, node: str = "") -> Place:
    """A line is a sub-group; where pods have numbers, those of one owner and role in it."""
    leaf, index, node = leaf_of(pod), index_of(pod), node or pod.spec.node_name
    if index is None:
        return Place(leaf, None, node)
    owner, role = pod.metadata.controller, pod.metadata.labels.get(KUBEFLOW_REPLICA_TYPE, "")
    parts = dict.fromkeys((leaf, owner.name if owner is not None else "", role))
    return Place("/".join(filter(None, parts)), index, node)


def noted(pods: Iterable[Pod], coming: Mapping[str, str], awaited: Iterable[Place]) -> str:
    """What to note: where members are, get bound now (nodes by uid), and left a place to which one is to return."""
    here = [place_of(pod, node) for pod in pods if (node := coming.get(pod.metadata.uid) or _stays_on(pod))]
    taken = {place[:2] for place in here if place.number is not None}
    return encode([*here, *(place for place in awaited if place[:2] not in taken)])


def vacancies(known: Iterable[Place], pods: Sequence[Pod], departed: Sequence[Pod] = ()) -> list[Vacancy]:
    """The places that pods left or leave, with their successors as far as they exist. `departed`: pods that ended."""
    found = _Places(known)
    for pod in pods:
        if _stays_on(pod) or pod.status.phase == "Succeeded":
            found.occupy(place_of(pod))
    leaving = [*departed, *(pod for pod in pods if _leaves(pod))]
    left = {slot: pod for pod in leaving if (slot := found.left_by(place_of(pod))) is not None}
    waiting = sorted((pod for pod in pods if pod.is_here and not pod.spec.node_name), key=lambda pod: pod.metadata.name)
    successors = {slot: pod for pod in waiting if (slot := found.successor_of(place_of(pod))) is not None}
    return [Vacancy(slot, node, left.get(slot), successors.get(slot)) for slot, node in found.slots.items()]


class _Places:
    """Slots with their nodes; those that are occupied are removed."""

    def __init__(self, known: Iterable[Place]) -> None:
        self.slots: dict[Slot, str] = {}
        self._occupied: set[Slot] = set()
        self._left: set[Slot] = set()
        self._followed: set[Slot] = set()
        for place in known:
            self._add(place)

    def _add(self, place: Place) -> Slot:
        if place.number is not None:
            slot = Slot(place.line, place.number)
        else:
            slot = Slot(*place)
            while slot in self.slots or slot in self._occupied:
                slot = slot._replace(twin=slot.twin + 1)
        self.slots[slot] = place.node
        return slot

    def occupy(self, place: Place) -> None:
        slot = self._free(place) if place.number is None else Slot(place.line, place.number)
        if slot is not None:
            self.slots.pop(slot, None)
            self._occupied.add(slot)

    def left_by(self, place: Place) -> Slot | None:
        """None: another pod is in its place already."""
        if place.number is not None:
            return None if Slot(place.line, place.number) in self._occupied else self._add(place)
        slot = self._free(place) or self._add(place)
        self._left.add(slot)
        return slot

    def successor_of(self, place: Place) -> Slot | None:
        slot: Slot | None = Slot(place.line, place.number)
        if place.number is None:
            free = (each for each in self.slots if each.line == place.line and each.number is None)
            slot = next((each for each in free if each not in self._followed), None)
        if slot is None or slot not in self.slots:
            return None
        self._followed.add(slot)
        return slot

    def _free(self, place: Place) -> Slot | None:
        """The slot of a pod without a number."""
        same = (slot for slot in self.slots if slot[:3] == tuple(place))
        return next((slot for slot in same if slot not in self._left), None)


def _stays_on(pod: Pod) -> str:
    return pod.spec.node_name if pod.is_here else ""


def _leaves(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_here and pod.status.phase != "Succeeded"


Homes = Mapping[str, NodeTerm]
"""Where pods, by uid, are to go."""


def attempts(nodes: Mapping[str, str], fit: Collection[str], paths: Mapping[str, Sequence[Term]]) -> Iterator[Homes]:
    """Where to look for places, the best first: at the predecessors' nodes, else ever further around them.

    `nodes`: of the predecessors, by uid of the pod; `fit`: those whose node has room for them. `paths`: the domains of
    a node, broad to narrow. Only when others leave no choice, those that fit go elsewhere as well.
    """
    homes = {uid: NodeTerm(fields=(Term("metadata.name", "In", (node,)),)) for uid, node in nodes.items()}
    staying = {uid: home for uid, home in homes.items() if uid in fit}
    if len(staying) == len(homes):
        yield homes
    elif staying:
        yield from (staying | around for around in _around(nodes.keys() - staying.keys(), nodes, paths))
        yield staying
    yield from _around(nodes, nodes, paths)


def _around(
    uids: Iterable[str], nodes: Mapping[str, str], paths: Mapping[str, Sequence[Term]]
) -> Iterator[dict[str, NodeTerm]]:
    """The domain of each, from the narrowest that is not the node itself."""
    chosen = {uid: paths.get(nodes[uid], ()) for uid in sorted(uids)}
    for depth in range(max(map(len, chosen.values()), default=0), 0, -1):
        yield {uid: NodeTerm(expressions=tuple(path[:depth])) for uid, path in chosen.items() if path}
