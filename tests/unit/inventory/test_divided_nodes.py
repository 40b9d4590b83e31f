"""Divided nodes: a slot for every zone and one for the node; whatever happens equals what is worked out anew."""

from __future__ import annotations

import copy

import msgspec
import pytest

from spinney.api.placement.problem import SINGLE_NUMA_NODE, Node, Topology, Zone
from spinney.core.inventory.counts import Shape
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.numa_zones import as_node, zone_key
from spinney.core.inventory.pods import Pod
from spinney.core.inventory.trees import NOWHERE
from unit.inventory.inventory_kit import RESOURCES, Model, Taken, node
from unit.inventory.test_histories import NODES, PODS, PORTS, History, check

DEEP = Topology("deep", ("rack", "numa"), zones=True)
ENDLESS = 10**30


def divided(name: str = "n", gpus: tuple[int, ...] = (4, 4), *, policy: str = SINGLE_NUMA_NODE, **more: int) -> Node:
    """A node whose zones account for GPUs only."""
    zones = tuple(Zone(f"z{at}", (0, each), (0, more.get("used", 0)), (0, 0)) for at, each in enumerate(gpus))
    whole = node(name, {"rack": "r"}, (more.get("cpu", 1000), sum(gpus)), (0, more.get("used", 0) * len(gpus)))
    return msgspec.structs.replace(whole, zones=zones, zone_policy=policy)


def fits(inventory: Inventory, *request: int) -> dict[str, int]:
    """How many pods of a request fit, by zone of the only node."""
    counts = inventory.counts(Shape(request)).per_node
    return {inventory.zone(slot): int(counts[slot]) for slot in inventory.slots()}


def test_k12_a_divided_node_takes_pods_in_its_zones_only() -> None:
    inventory = Inventory.of(RESOURCES, (), [divided()])
    assert fits(inventory, 0, 3) == {"": 0, "z0": 1, "z1": 1}
    assert fits(inventory, 0, 5) == {"": 0, "z0": 0, "z1": 0}


def test_k15_nodes_are_counted_without_their_zones() -> None:
    inventory = Inventory.of(RESOURCES, (), [divided("n"), divided("m"), divided("o", policy="")])
    assert (len(inventory.slots()), inventory.node_count()) == (7, 3)
    inventory.remove_node("n")
    assert inventory.node_count() == 2


@pytest.mark.parametrize("policy", ["", "none", "best-effort", "restricted"])
def test_k12_zones_do_not_matter_under_another_policy(policy: str) -> None:
    inventory = Inventory.of(RESOURCES, (), [divided(policy=policy)])
    assert fits(inventory, 0, 5) == {"": 1}


def test_k12_a_resource_that_zones_do_not_account_for_belongs_to_the_node() -> None:
    inventory = Inventory.of(RESOURCES, (), [divided(cpu=300)])
    inventory.add_pod("p", "n", (200, 1), zone="z0")
    assert fits(inventory, 100, 1) == {"": 0, "z0": 1, "z1": 1}
    assert fits(inventory, 0, 1) == {"": 0, "z0": 3, "z1": 4}


def test_k12_a_pod_whose_zone_is_not_known_holds_room_in_every_zone() -> None:
    inventory = Inventory.of(RESOURCES, (), [divided()])
    inventory.add_pod("p", "n", (0, 3))
    assert fits(inventory, 0, 1) == {"": 0, "z0": 1, "z1": 1}
    inventory.add_pod("p", "n", (0, 3), zone="z1")
    assert fits(inventory, 0, 1) == {"": 0, "z0": 4, "z1": 1}


def test_k12_pods_keep_their_zones_while_the_node_is_away_or_not_divided_yet() -> None:
    inventory = Inventory(RESOURCES)
    inventory.add_pod("p", "n", (0, 3), zone="z1")
    inventory.put_node(divided(policy="none"))
    assert fits(inventory, 0, 1) == {"": 5}
    inventory.put_node(divided())
    assert fits(inventory, 0, 1) == {"": 0, "z0": 4, "z1": 1}


def test_t7_zones_are_domains_below_the_host_and_never_shared_by_two_nodes() -> None:
    hosts = Topology("hosts", ("rack", "host", "numa"), zones=True)
    named = msgspec.structs.replace(divided("a"), labels={"rack": "r", "host": "a", "numa": "ignored"})
    inventory = Inventory.of(RESOURCES, (DEEP, hosts), [named, divided("b"), node("plain", {"rack": "r", "numa": "x"})])
    deep = inventory.trees["deep"]
    paths = {deep.path(2, domain) for domain in range(deep.domains(2))}
    assert paths == {("r", f"{name}/{zone}") for name in "ab" for zone in ("z0", "z1")}
    tree = inventory.trees["hosts"]
    assert tree.path(3, tree.domain_of(3)[inventory.slot_for("a", "z1")]) == ("r", "a", "z1")
    assert tree.domain_of(3)[inventory.slot("plain")] == tree.domain_of(3)[inventory.slot("a")] == NOWHERE


def test_k12_a_port_is_taken_on_the_whole_node() -> None:
    inventory = Inventory.of(RESOURCES, (), [divided()])
    inventory.add_pod("p", "n", (0, 1), frozenset({80}), zone="z0")
    counts = inventory.counts(Shape((0, 1), ports=frozenset({80})))
    assert counts.total == 0


class Seats(Model):
    """The model seen slot by slot: zones and nodes."""

    def __init__(self, model: Model) -> None:
        super().__init__({}, model.pods, model.topologies, model.taken)
        self.known = model.nodes
        for name, one in model.nodes.items():
            self.nodes[name] = one
            for zone in one.zones if one.is_divided else ():
                self.nodes[zone_key(name, zone.name)] = as_node(one, zone)

    def holders(self, name: str) -> list[Taken]:
        """Everybody on a node; in a zone those that are there, and those that could be."""
        home, zone = self._split(name)
        pods = [
            Taken(pod.request, pod.ports, 1, pod.releasing)
            for pod in self.pods.values()
            if pod.node == home and (not zone or self._zone(pod) in ("", zone))
        ]
        seats = [name, home] if zone else [seat for seat in self.nodes if self._split(seat)[0] == home]
        return pods + [taken for seat in seats for taken in self.taken.get(seat, [])]

    def free(self, name: str, waiting: bool) -> list[int]:
        home, zone = self._split(name)
        own = super().free(name, waiting)
        if not zone:
            return own
        counted = [any(one.allocatable[r] for one in self.known[home].zones) for r in range(len(own))]
        bound = [amount if known else ENDLESS for amount, known in zip(own, counted, strict=True)]
        return list(map(min, bound, super().free(home, waiting)))

    def ports(self, name: str, waiting: bool) -> set[int]:
        return super().ports(self._split(name)[0], waiting)

    def path(self, topology: str, name: str) -> tuple[str, ...]:
        path = super().path(topology, name)
        if not self.topologies[topology].zones:
            return path
        above, (home, zone) = path[: len(self.topologies[topology].levels) - 1], self._split(name)
        is_deep = zone and len(above) == len(self.topologies[topology].levels) - 1
        return (*above, f"{home}/{zone}") if is_deep else above

    def _split(self, name: str) -> tuple[str, str]:
        home, _, zone = name.partition("\0")
        return home, zone

    def _zone(self, pod: Pod) -> str:
        return pod.zone if zone_key(pod.node, pod.zone) in self.nodes else ""


class Zoned(History):
    """Random changes to nodes of which many are divided."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.inventory.put_topology(DEEP)
        self.model.topologies["deep"] = DEEP

    def random_node(self, name: str) -> Node:
        dice, one = self.dice, super().random_node(name)
        if dice.random() < 0.3:
            return one
        cpu = dice.choice([0, 400])
        zones = tuple(
            Zone(f"z{at}", (cpu, dice.choice([0, 2, 4])), (0, dice.choice([0, 1])), (0, dice.choice([0, 0, 1])))
            for at in range(dice.choice([1, 2, 2, 3]))
        )
        policy = SINGLE_NUMA_NODE if dice.random() < 0.8 else "restricted"
        return msgspec.structs.replace(one, zones=zones, zone_policy=policy)

    def put_node(self) -> None:
        name = self.dice.choice(NODES)
        known, fresh = self.model.nodes.get(name), self.random_node(name)
        if known is not None and self.dice.random() < 0.3:
            fresh = msgspec.structs.replace(known, used=fresh.used, labels=fresh.labels)
        self.inventory.put_node(fresh)
        if known is None or self._slots(known) != self._slots(fresh):
            self._forget_taken(name)
        self.model.nodes[name] = fresh

    def remove_node(self) -> None:
        name = self.dice.choice(NODES)
        self.inventory.remove_node(name)
        self.model.nodes.pop(name, None)
        self._forget_taken(name)

    def pod(self) -> None:
        key, dice = self.dice.choice(PODS), self.dice
        zone = dice.choice(["", "z0", "z1", "z2"])
        pod = Pod(dice.choice(NODES), self.request(), dice.choice(PORTS), dice.random() < 0.2, zone)
        self.inventory.add_pod(key, pod.node, pod.request, pod.ports, pod.releasing, pod.zone)
        self.model.pods[key] = pod

    def release(self) -> None:
        key = self.dice.choice(PODS)
        self.inventory.release_pod(key)
        pod = self.model.pods.get(key)
        if pod is not None:
            self.model.pods[key] = msgspec.structs.replace(pod, releasing=True)

    def take(self) -> None:
        seats = Seats(self.model).nodes
        if seats:
            name, dice = self.dice.choice(sorted(seats)), self.dice
            taken = Taken(self.request(), dice.choice(PORTS), dice.choice([1, 1, 3]), dice.random() < 0.2)
            slot = self.inventory.slot(name)
            self.inventory.take(slot, taken.request, taken.ports, taken.times, taken.releasing)
            self.model.taken.setdefault(name, []).append(taken)

    def _slots(self, one: Node) -> list[str]:
        return [zone.name for zone in one.zones] if one.is_divided else []

    def _forget_taken(self, name: str) -> None:
        for seat in [seat for seat in self.model.taken if seat.partition("\0")[0] == name]:
            del self.model.taken[seat]


@pytest.mark.parametrize("seed", range(12))
def test_k12_a_fold_of_any_history_with_zones_equals_what_is_worked_out_anew(seed: int) -> None:
    history = Zoned(seed)
    for _ in range(60):
        history.step()
        check(history.inventory, Seats(history.model))


@pytest.mark.parametrize("seed", range(12))
def test_k12_rollback_with_zones_equals_never_having_tried(seed: int) -> None:
    history = Zoned(5000 + seed)
    for _ in range(40):
        history.step()
    for _ in range(8):
        before = copy.deepcopy(history.model)
        mark = history.inventory.checkpoint()
        for _ in range(history.dice.randrange(1, 25)):
            history.step()
            if history.dice.random() < 0.4:
                check(history.inventory, Seats(history.model))
        if history.dice.random() < 0.7:
            history.inventory.rollback(mark)
            history.model = before
        else:
            history.inventory.commit(mark)
        check(history.inventory, Seats(history.model))
