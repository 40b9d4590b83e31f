"""Topologies as trees of domains: capacity, used and free resources of each, and the gangs placed there.

Values only, for text and graphics alike. A domain is identified by its path: its name may occur under other parents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

Json = dict[str, Any]
Path = tuple[str, ...]

CPU = "cpu"
CORDONED = "cordoned"
NOT_READY = "not ready"

_ACCELERATORS = ("gpu", "tpu", "npu", "gaudi", "neuron", "mig-")
_DIGITS = re.compile(r"([0-9]+)")


class ResourceUsage(Struct, frozen=True, gc=False):
    """One resource in base units (cpu in thousandths): allocatable capacity, used by pods, and free.

    Nodes that take no pods offer room and have none free.
    """

    capacity: int = 0
    used: int = 0
    free: int = 0

    @property
    def lost(self) -> int:
        """Capacity that is neither used nor free: it is on unschedulable nodes."""
        return max(0, self.capacity - self.used - self.free)

    def to_json(self) -> Json:
        return {"capacity": self.capacity, "used": self.used, "free": self.free}


ResourceUsages = tuple[ResourceUsage, ...]
"""One for each resource of the view, in their order."""


class Host(Struct, frozen=True, gc=False):
    """A node. `state`: why it accepts no pods, empty if it does; `gangs`: pods by gang; `loose`: pods of no gang.

    `held`: what the pods of each gang request, in base units and in the order of the resources of the view.
    """

    name: str
    rooms: ResourceUsages
    state: str = ""
    gangs: Mapping[str, int] = {}
    loose: int = 0
    held: Mapping[str, tuple[int, ...]] = {}
    taints: tuple[str, ...] = ()


class Domain(Struct, frozen=True, gc=False):
    """`domains` are those right below it; a domain of the narrowest level has `hosts` instead. The root has no path.

    `unusable`: how many of its nodes take no pods. `loose`: pods of no gang that hold accelerators.
    """

    path: Path
    rooms: ResourceUsages
    nodes: int
    unusable: int = 0
    gangs: Mapping[str, int] = {}
    loose: int = 0
    domains: tuple[Domain, ...] = ()
    hosts: tuple[Host, ...] = ()

    @property
    def name(self) -> str:
        return self.path[-1] if self.path else ""

    def at(self, depth: int) -> Iterator[Domain]:
        """Domains `depth` levels below this one, in order."""
        if depth == 0:
            yield self
            return
        for below in self.domains:
            yield from below.at(depth - 1)

    def all_hosts(self) -> Iterator[Host]:
        yield from self.hosts
        for below in self.domains:
            yield from below.all_hosts()

    def find(self, path: Path) -> Domain | None:
        """The domain with this path below the root."""
        here: Domain | None = self
        for name in path:
            here = next((below for below in here.domains if below.path[-1] == name), None) if here else None
        return here


class Level(Struct, frozen=True):
    """The node label of a level, and the short name that constraints may use; empty if it has none."""

    key: str
    domain: str = ""

    @property
    def name(self) -> str:
        return self.domain or self.key.rpartition("/")[2]


class Outside(Struct, frozen=True):
    """A node that is not in a tree, and the keys that it lacks."""

    host: Host
    misses: tuple[str, ...]


class Tree(Struct, frozen=True):
    """One topology. `resource` is its main resource: the accelerator that its nodes have most of, else the cpu.

    `kinds`: which objects define it: ClusterTopology, Topology, or both.
    """

    name: str
    levels: tuple[Level, ...]
    root: Domain
    resource: int
    outside: tuple[Outside, ...] = ()
    kinds: tuple[str, ...] = ()

    def depth(self, level: str) -> int | None:
        """The depth of a level by key or short name, 1 for the broadest; None if the tree has no such level."""
        for depth, one in enumerate(self.levels, start=1):
            if level in (one.key, one.domain, one.name):
                return depth
        return None

    def room(self, domain: Domain | Host) -> ResourceUsage:
        """The usage of the tree's main resource in a domain."""
        return domain.rooms[self.resource]

    def own_resource(self, rooms: ResourceUsages) -> int:
        """The main resource of a domain: the tree's where the domain has some of it, else its largest one."""
        room = rooms[self.resource]
        return self.resource if room.capacity or room.used else most_of(rooms)


class Gang(Struct, frozen=True):
    """A PodGroup, also one known only from its pods: pods with and without a node, and its requested topology."""

    name: str
    bound: int = 0
    waiting: int = 0
    topology: str = ""


class View(Struct, frozen=True):
    """All trees by name. `resources` are accelerators by name, then the cpu."""

    resources: tuple[str, ...]
    trees: tuple[Tree, ...]
    gangs: Mapping[str, Gang]

    def tree(self, name: str) -> Tree | None:
        return next((tree for tree in self.trees if tree.name == name), None)

    def resource(self, tree: Tree) -> str:
        return self.resources[tree.resource]


def most_of(rooms: ResourceUsages) -> int:
    """The index of the accelerator with the largest capacity, else of the cpu, which is last."""
    best = max(range(len(rooms) - 1), key=lambda at: (rooms[at].capacity, -at), default=len(rooms) - 1)
    return best if rooms[best].capacity else len(rooms) - 1


def sum_of(parts: Sequence[Domain | Host], resources: int) -> ResourceUsages:
    """The summed usage of several domains or hosts, for each resource."""
    found = []
    for at in range(resources):
        rooms = [part.rooms[at] for part in parts]
        sums = (sum([r.capacity for r in rooms]), sum([r.used for r in rooms]), sum([r.free for r in rooms]))
        found.append(ResourceUsage(*sums))
    return tuple(found)


def is_accelerator(resource: str) -> bool:
    """Whether an extended resource is a GPU or the like by its name: `amd.com/gpu`, `gpu.intel.com/xe`."""
    vendor, slash, kind = resource.partition("/")
    if not slash:
        return False
    return any(word in kind for word in _ACCELERATORS) or vendor.startswith("gpu.")


@lru_cache(maxsize=65_536)
def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A sort key for natural order: r2 before r10. However many digits there are, they are never made a number."""
    return tuple(_natural(part) for part in _DIGITS.split(name) if part)


def _natural(part: str) -> tuple[bool, int, str]:
    if not _DIGITS.fullmatch(part):
        return True, 0, part
    digits = part.lstrip("0")
    return False, len(digits), digits


def tree_json(view: View, tree: Tree) -> Json:
    """A topology for programs, hosts included."""
    return {
        "topology": tree.name,
        "kinds": list(tree.kinds),
        "levels": [{"domain": level.domain, "key": level.key} for level in tree.levels],
        "resource": view.resource(tree),
        "tree": _domain_json(view, tree.root),
        "outside": [
            {"node": each.host.name, "misses": list(each.misses), **_host_facts(view, each.host)}
            for each in tree.outside
        ],
    }


def gang_json(gang: Gang) -> Json:
    return {"gang": gang.name, "bound": gang.bound, "waiting": gang.waiting, "topology": gang.topology}


def _domain_json(view: View, domain: Domain) -> Json:
    shown: Json = {"path": list(domain.path), "nodes": domain.nodes, "unusable": domain.unusable}
    shown |= {"resources": _rooms_json(view, domain.rooms), "gangs": dict(domain.gangs), "loosePods": domain.loose}
    if domain.domains:
        shown["domains"] = [_domain_json(view, below) for below in domain.domains]
    if domain.hosts:
        shown["hosts"] = [{"node": host.name, **_host_facts(view, host)} for host in domain.hosts]
    return shown


def _host_facts(view: View, host: Host) -> Json:
    facts: Json = {"resources": _rooms_json(view, host.rooms), "gangs": dict(host.gangs), "loosePods": host.loose}
    return {**facts, "state": host.state} if host.state else facts


def _rooms_json(view: View, rooms: ResourceUsages) -> Json:
    pairs = zip(view.resources, rooms, strict=True)
    return {name: room.to_json() for name, room in pairs if room.capacity or room.used}
