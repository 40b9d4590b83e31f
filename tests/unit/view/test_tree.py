"""Trees of domains: what they hold, what is free, who sits where; and that a change costs its own branch only"""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from spinney.api.kinds.podgroup import PodGroupTopologyConstraint, SubGroup
from spinney.api.labels import HOSTNAME
from spinney.core.view.topology_index import TopologyIndex, view_of
from spinney.core.view.tree import CORDONED, NOT_READY, Domain, ResourceUsage, View, is_accelerator, natural, tree_json
from unit.view.clusters import (
    BLOCK,
    GPU,
    RACK,
    cluster_topology,
    hall,
    kai_topology,
    lingjun,
    node,
    pod,
    podgroup,
)


def domain(view: View, *path: str) -> Domain:
    found = view.trees[0].root.find(path)
    assert found is not None
    return found


def room(view: View, *path: str) -> ResourceUsage:
    return view.trees[0].room(domain(view, *path))


def test_b2_capacity_used_and_free_are_summed_up_from_hosts_to_the_root() -> None:
    pods = [pod("a", "b0-r0-h0", gpus=8), pod("b", "b0-r1-h0", gpus=3), pod("c", "b1-r0-h0", gpus=2)]
    view = view_of(hall(), pods, cluster_topologies=[cluster_topology()])
    assert room(view, "b0", "b0-r0", "b0-r0-h0") == ResourceUsage(8, 8, 0)
    assert room(view, "b0", "b0-r0") == ResourceUsage(16, 8, 8)
    assert room(view, "b0") == ResourceUsage(32, 11, 21)
    assert room(view) == ResourceUsage(64, 13, 51)


def test_b2_a_domain_is_its_path_so_equal_names_under_two_parents_are_two_domains() -> None:
    nodes = [node("x", block="b0", rack="r0"), node("y", block="b1", rack="r0")]
    view = view_of(nodes, [pod("a", "x", gpus=5)], cluster_topologies=[cluster_topology()])
    assert (room(view, "b0", "r0").used, room(view, "b1", "r0").used) == (5, 0)


def test_k15_gangs_are_counted_in_every_domain_that_holds_their_pods() -> None:
    pods = [pod("a", "b0-r0-h0", "g"), pod("b", "b0-r0-h0", "g"), pod("c", "b0-r1-h0", "g"), pod("d", "b1-r0-h1", "h")]
    view = view_of(hall(), pods, [podgroup("g", "t")], cluster_topologies=[cluster_topology()])
    assert domain(view, "b0", "b0-r0").gangs == {"ns/g": 2}
    assert domain(view, "b0").gangs == {"ns/g": 3}
    assert domain(view).gangs == {"ns/g": 3, "ns/h": 1}
    assert (view.gangs["ns/g"].bound, view.gangs["ns/g"].topology) == (3, "t")


def test_k15_pods_without_a_node_count_as_waiting_and_sit_nowhere() -> None:
    view = view_of(hall(), [pod("a", "", "g"), pod("b", "b0-r0-h0", "g")], cluster_topologies=[cluster_topology()])
    assert (view.gangs["ns/g"].bound, view.gangs["ns/g"].waiting) == (1, 1)
    assert domain(view).gangs == {"ns/g": 1}


def test_k15_a_gang_asks_for_the_topology_of_its_first_part_that_names_one() -> None:
    parts = (SubGroup("a"), SubGroup("b", topology_constraint=PodGroupTopologyConstraint("t")))
    group = podgroup("g")
    split = replace(group, spec=replace(group.spec, sub_groups=parts))
    assert view_of(hall(), (), [split]).gangs["ns/g"].topology == "t"


def test_a_gang_without_pods_is_known_by_its_podgroup() -> None:
    assert view_of(hall(), (), [podgroup("g")]).gangs["ns/g"].bound == 0


def test_pods_of_no_gang_that_hold_accelerators_are_counted_apart() -> None:
    pods = [pod("a", "b0-r0-h0"), pod("daemon", "b0-r0-h0", gpus=0)]
    view = view_of(hall(), pods, cluster_topologies=[cluster_topology()])
    assert domain(view, "b0").loose == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_holds_nothing(phase: str) -> None:
    view = view_of(hall(), [pod("a", "b0-r0-h0", "g", phase=phase)], cluster_topologies=[cluster_topology()])
    assert (room(view).used, dict(view.gangs)) == (0, {})


def test_a_pod_that_leaves_holds_its_room_until_it_is_gone() -> None:
    held = pod("a", "b0-r0-h0", "g")
    leaving = replace(held, metadata=replace(held.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    assert room(view_of(hall(), [leaving], cluster_topologies=[cluster_topology()])).used == 1


@pytest.mark.parametrize(
    ("made", "state"),
    [({"cordoned": True}, CORDONED), ({"ready": "False"}, NOT_READY), ({"ready": "Unknown"}, NOT_READY)],
)
def test_nodes_that_take_no_pods_offer_nothing_free(made: dict[str, str], state: str) -> None:
    nodes = [node("x", block="b", rack="r", **made), node("y", block="b", rack="r")]  # type: ignore[arg-type]
    view = view_of(nodes, [pod("a", "x", gpus=2)], cluster_topologies=[cluster_topology()])
    assert room(view) == ResourceUsage(16, 2, 8)
    assert room(view).lost == 6
    assert (domain(view).unusable, domain(view, "b", "r", "x").hosts[0].state) == (1, state)


def test_more_used_than_there_is_leaves_nothing_free() -> None:
    view = view_of([node("x", block="b", rack="r")], [pod("a", "x", gpus=9)], cluster_topologies=[cluster_topology()])
    assert (room(view).free, room(view).lost) == (0, 0)


def test_b2_nodes_that_lack_a_key_are_outside_with_what_they_lack() -> None:
    nodes = [*hall(), node("half", block="b0"), node("none")]
    tree = view_of(nodes, cluster_topologies=[cluster_topology()]).trees[0]
    assert [(one.host.name, one.misses) for one in tree.outside] == [("half", (RACK,)), ("none", (BLOCK, RACK))]
    assert tree.root.nodes == 8


def test_the_levels_that_count_are_those_of_the_scheduler_with_the_short_names_of_the_cluster_topology() -> None:
    own = kai_topology("t", RACK, HOSTNAME)
    tree = view_of(hall(), (), (), [own], [cluster_topology()]).trees[0]
    assert [(level.key, level.name) for level in tree.levels] == [(RACK, "rack"), (HOSTNAME, "host")]
    assert tree.kinds == ("ClusterTopology", "Topology")


def test_a_level_below_the_host_is_no_matter_of_node_labels() -> None:
    levels = {"rack": RACK, "host": HOSTNAME, "numa": "example.com/numa"}
    tree = view_of(hall(), cluster_topologies=[cluster_topology("t", **levels)]).trees[0]
    assert [level.name for level in tree.levels] == ["rack", "host"]


def test_levels_are_found_by_domain_key_or_last_word() -> None:
    tree = view_of(hall(), topologies=[kai_topology("t", BLOCK, RACK)]).trees[0]
    assert [tree.depth(name) for name in (BLOCK, "rack", "host")] == [1, 2, None]


def test_the_narrowest_level_need_not_be_the_host() -> None:
    view = view_of(hall(), topologies=[kai_topology("t", BLOCK, RACK)])
    assert [host.name for host in domain(view, "b0", "b0-r0").hosts] == ["b0-r0-h0", "b0-r0-h1"]


def test_each_tree_is_told_by_the_accelerator_its_nodes_have_most_of() -> None:
    found = node("a", rack="r0")
    both = {"cpu": "4", "amd.com/gpu": "8", GPU: "2"}
    view = view_of(
        [replace(found, status=replace(found.status, allocatable=both))], topologies=[kai_topology("t", RACK)]
    )
    assert (view.resources, view.resource(view.trees[0])) == (("amd.com/gpu", GPU, "cpu"), "amd.com/gpu")


def test_without_accelerators_a_tree_is_told_by_its_cpu() -> None:
    view = view_of([node("x", gpus=0, rack="r")], topologies=[kai_topology("t", RACK)])
    assert (view.resource(view.trees[0]), room(view).capacity) == ("cpu", 64_000)


@pytest.mark.parametrize(
    ("resource", "answer"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("gpu.intel.com/xe", True),
        ("google.com/tpu", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("nvidia.com/gpu.shared", True),
        ("cpu", False),
        ("gpu", False),
        ("rdma/hca", False),
        ("hugepages-2Mi", False),
    ],
)
def test_accelerators_are_known_by_their_names(resource: str, answer: bool) -> None:
    assert is_accelerator(resource) is answer


def test_domains_stand_in_the_order_that_people_count_in() -> None:
    nodes = [node(f"n{at}", rack=f"r{at}") for at in (10, 2, 1)]
    tree = view_of(nodes, topologies=[kai_topology("t", RACK)]).trees[0]
    assert [each.name for each in tree.root.domains] == ["r1", "r2", "r10"]
    assert natural("r2") < natural("r10") < natural("s")
    assert natural("r09") < natural("r" + "9" * 5000) < natural("r²")


def test_the_lingjun_topology_keeps_tors_of_equal_name_apart() -> None:
    keys = ("example.com/core", "example.com/aggregation", "example.com/tor", HOSTNAME)
    tree = view_of(lingjun(), topologies=[kai_topology("lingjun", *keys)]).trees[0]
    counts = [sum(1 for _ in tree.root.at(depth)) for depth in range(5)]
    assert counts == [1, 1, 3, 119, 847]
    assert len({one.name for one in tree.root.at(3)}) < 119


def test_for_programs_there_is_everything() -> None:
    nodes = [node("x", block="b", rack="r", cordoned=True), node("out")]
    view = view_of(nodes, [pod("a", "x", "g", gpus=2)], cluster_topologies=[cluster_topology()])
    told = tree_json(view, view.trees[0])
    rack = told["tree"]["domains"][0]["domains"][0]
    host = rack["domains"][0]["hosts"][0]
    assert rack["resources"][GPU] == {"capacity": 8, "used": 2, "free": 0}
    assert (rack["gangs"], host["state"], told["resource"]) == ({"ns/g": 1}, "cordoned", GPU)
    assert told["outside"][0]["node"] == "out"


class TestChanges:
    def forest(self) -> TopologyIndex:
        forest = TopologyIndex()
        forest.put_cluster_topology("t", cluster_topology())
        for one in hall():
            forest.put_node(one.metadata.name, one)
        return forest

    def test_what_has_not_changed_is_the_same_value(self) -> None:
        forest = self.forest()
        before = forest.view()
        forest.put_pod(None, pod("a", "b0-r0-h0"))
        after = forest.view()
        assert after.trees[0].root.find(("b1",)) is before.trees[0].root.find(("b1",))
        assert after.trees[0].root.find(("b0",)) is not before.trees[0].root.find(("b0",))

    def test_a_heartbeat_changes_nothing(self) -> None:
        forest = self.forest()
        before = forest.view()
        for one in hall():
            forest.put_node(one.metadata.name, one)
        assert forest.view().trees[0].root is before.trees[0].root

    def test_a_topology_that_comes_late_has_its_tree(self) -> None:
        forest = self.forest()
        forest.view()
        forest.put_topology("late", kai_topology("late", RACK))
        assert [tree.root.nodes for tree in forest.view().trees] == [8, 8]

    def test_any_history_ends_in_the_view_of_what_is_left(self) -> None:
        dice = random.Random(7)
        forest, nodes = self.forest(), {one.metadata.name: one for one in hall()}
        pods: dict[Any, Any] = {}
        for step in range(400):
            name = dice.choice(sorted(nodes) or ["b0-r0-h0"])
            match dice.randrange(6):
                case 0:
                    nodes.pop(name, None)
                    forest.put_node(name, None)
                case 1 | 2:
                    labels = {"block": f"b{dice.randrange(3)}", "rack": f"r{dice.randrange(3)}"}
                    labels = labels if dice.random() < 0.9 else {}
                    nodes[name] = node(name, gpus=dice.choice([0, 4, 8]), cordoned=dice.random() < 0.2, **labels)
                    forest.put_node(name, nodes[name])
                case 3 if pods:
                    gone = pods.pop(dice.choice(sorted(pods)))
                    forest.put_pod(gone, None)
                case _:
                    made = pod(f"p{dice.randrange(12)}", dice.choice(["", name]), dice.choice(["", "g", "h"]))
                    forest.put_pod(pods.get(made.metadata.name), made)
                    pods[made.metadata.name] = made
            if step % 7 == 0:
                assert forest.view() == view_of(nodes.values(), pods.values(), (), (), [cluster_topology()])

    def test_a_topology_that_is_gone_has_no_tree(self) -> None:
        forest = self.forest()
        forest.put_topology("t", kai_topology("t", RACK))
        forest.put_cluster_topology("t", None)
        assert [tree.kinds for tree in forest.view().trees] == [("Topology",)]
        forest.put_topology("t", None)
        assert forest.view().trees == ()

    def test_a_podgroup_that_is_gone_is_no_gang(self) -> None:
        forest = self.forest()
        forest.put_group(podgroup("g"))
        forest.put_group(podgroup("g"), is_gone=True)
        assert forest.view().gangs == {}
