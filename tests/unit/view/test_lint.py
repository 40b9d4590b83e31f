"""Problems of topologies: each is found, names its nodes and says what to do; what is right is not complained about"""

from __future__ import annotations

import msgspec
import pytest

from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.labels import HOSTNAME, ZONE
from spinney.core.expansion.clustertopology import level_statuses
from spinney.core.view.discovery import discover
from spinney.core.view.lint import ERROR, NOTE, WARNING, Lint, Problem, lint
from unit.view.clusters import BLOCK, RACK, cluster_topology, hall, kai_topology, labelled, lingjun, node


def one(found: Lint, code: str) -> Problem:
    chosen = [problem for problem in found.problems if problem.code == code]
    assert len(chosen) == 1, [(problem.code, problem.text) for problem in found.problems]
    return chosen[0]


def test_b2_a_sound_topology_has_no_problems() -> None:
    found = lint(hall(), [cluster_topology()], None)
    assert (found.problems, found.is_clean) == ((), True)


def test_b2_nodes_that_miss_a_key_are_named() -> None:
    nodes = [*hall(), node("x1", block="b0"), node("x2", block="b1")]
    problem = one(lint(nodes, [cluster_topology()], None), "missing-key")
    assert (problem.severity, problem.level, problem.nodes) == (WARNING, "rack", ("x1", "x2"))
    assert len(lint(nodes, [cluster_topology()], None).problems) == 1
    assert "nodes x1 and x2 miss example.com/rack" in problem.text
    assert "kubectl label node x1 example.com/rack=" in problem.hint


def test_b2_nodes_of_other_hardware_miss_nothing() -> None:
    other = [labelled(f"o{at}", {"other.com/rack": f"r{at // 2}"}) for at in range(4)]
    topologies = [cluster_topology(), cluster_topology("o", rack="other.com/rack", host=HOSTNAME)]
    assert lint([*hall(), *other], topologies, None).problems == ()


def test_b2_a_shared_key_does_not_make_a_node_a_member() -> None:
    levels = {"zone": ZONE, "rack": RACK, "host": HOSTNAME}
    nodes = [labelled(f"n{at}", {ZONE: "z", RACK: f"r{at // 2}"}) for at in range(4)]
    nodes.append(labelled("control-plane", {ZONE: "z"}, gpus=0))
    found = lint(nodes, [cluster_topology("t", **levels)], None)
    assert [(each.code, each.severity) for each in found.problems] == [("outside", NOTE)]
    assert found.is_clean


def test_b2_a_level_that_no_node_carries_is_an_error() -> None:
    levels = {"datacenter": "example.com/dc", "rack": RACK, "host": HOSTNAME}
    problem = one(lint(hall(), [cluster_topology("t", **levels)], None), "level-without-nodes")
    assert (problem.severity, problem.level) == (ERROR, "datacenter")
    assert "example.com/dc" in problem.text


def test_b2_keys_that_no_node_carries_together_are_an_error() -> None:
    nodes = [node("x", block="b"), node("y", rack="r")]
    assert one(lint(nodes, [cluster_topology()], None), "no-nodes").severity == ERROR


def test_b2_a_value_with_a_few_nodes_under_another_parent_is_not_nested() -> None:
    nodes = [*hall(hosts=4), node("stray", block="b1", rack="b0-r0")]
    problem = one(lint(nodes, [cluster_topology()], None), "not-nested")
    assert (problem.severity, problem.nodes, problem.domains) == (WARNING, ("stray",), ("b0-r0",))
    assert "lies under 2 blocks: b0 (4 nodes) and b1 (1 node)" in problem.text
    assert "node stray may have a wrong example.com/block or example.com/rack" in problem.hint


def test_b2_a_single_name_that_repeats_among_many_is_a_wrong_label_even_if_its_parts_are_equal() -> None:
    nodes = [*hall(), node("x", block="b1", rack="b0-r0"), node("y", block="b1", rack="b0-r0")]
    problem = one(lint(nodes, [cluster_topology()], None), "not-nested")
    assert problem.nodes == ("b0-r0-h0", "b0-r0-h1", "x", "y")
    assert problem.hint.startswith("some of nodes b0-r0-h0, b0-r0-h1, x and y may have a wrong")


def test_b2_names_that_repeat_under_several_parents_are_told_once() -> None:
    nodes = [node(f"{b}{r}{h}", block=b, rack=r) for b in ("b0", "b1") for r in ("r0", "r1") for h in range(2)]
    problem = one(lint(nodes, [cluster_topology()], None), "equal-names")
    assert (problem.severity, problem.domains) == (WARNING, ("r0", "r1"))
    assert "r0 lies under block b0 and b1" in problem.text


def test_b2_two_hosts_with_one_value_under_two_parents_are_a_problem() -> None:
    nodes = [node("x", block="b0", rack="r"), node("y", block="b1", rack="r")]
    found = lint(nodes, [cluster_topology()], None)
    assert not found.is_clean
    assert {"equal-names", "not-nested"} & {problem.code for problem in found.problems}


def test_b2_domains_with_a_single_host_are_named_with_it() -> None:
    nodes = [*hall(), node("lone", block="b1", rack="b1-r9")]
    problem = one(lint(nodes, [cluster_topology()], None), "single-host")
    assert (problem.level, problem.nodes, problem.domains) == ("rack", ("lone",), ("b1/b1-r9",))
    assert "1 of 5 racks has a single host: b1/b1-r9 (lone)" in problem.text


def test_b2_what_is_discovered_on_a_single_node_is_clean() -> None:
    known = {f"topology.kubernetes.io/{domain}": "a" for domain in ("zone", "block", "rack")}
    alone = [labelled("alone", known)]
    proposed = [msgspec.convert(each.manifest, ClusterTopology) for each in discover(alone).proposals]
    assert proposed
    assert lint(alone, proposed, None).problems == ()


def test_b2_a_level_that_says_no_more_than_the_host_is_a_problem() -> None:
    problem = one(lint(hall(hosts=1), [cluster_topology()], None), "single-host")
    assert problem.text.startswith("every rack has a single host")


def test_b2_two_topologies_over_the_same_keys_are_told() -> None:
    problem = one(lint(hall(), [cluster_topology("a"), cluster_topology("b")], None), "equal-topologies")
    assert "topologies a and b have the same levels" in problem.text


@pytest.mark.parametrize(("gpus", "severity"), [(8, WARNING), (0, NOTE)])
def test_b2_nodes_outside_every_topology_are_named(gpus: int, severity: str) -> None:
    found = lint([*hall(), node("far", gpus=gpus)], [cluster_topology()], None)
    assert (one(found, "outside").severity, one(found, "outside").nodes) == (severity, ("far",))
    assert found.is_clean is (severity == NOTE)


@pytest.mark.parametrize(("count", "words"), [(1, "label it, or define a topology for it"), (2, "label them, or")])
def test_b2_the_hint_for_nodes_outside_speaks_of_as_many_as_there_are(count: int, words: str) -> None:
    found = lint([*hall(), *(node(f"far-{at}") for at in range(count))], [cluster_topology()], None)
    assert one(found, "outside").hint.startswith(words)


def test_b2_a_cluster_without_topologies_is_told_where_to_get_one() -> None:
    problem = one(lint(hall(), [], ()), "no-topology")
    assert (problem.severity, "spinney topology discover" in problem.hint) == (ERROR, True)


def test_b2_another_key_for_hosts_is_told() -> None:
    nodes = [labelled(f"n{at}", {RACK: "r", "example.com/host": f"n{at}"}) for at in range(2)]
    levels = {"rack": RACK, "host": "example.com/host"}
    problem = one(lint(nodes, [cluster_topology("t", **levels)], None), "host-key")
    assert (problem.severity, "kubernetes.io/hostname" in problem.hint) == (WARNING, True)


def test_b2_hosts_that_share_a_name_are_an_error() -> None:
    nodes = [labelled(f"n{at}", {RACK: "r", BLOCK: "b", HOSTNAME: "same"}) for at in range(2)]
    problem = one(lint(nodes, [cluster_topology()], None), "host-not-unique")
    assert (problem.severity, problem.nodes) == (ERROR, ("n0", "n1"))


def test_b2_a_key_without_a_value_is_told() -> None:
    nodes = [*hall(), node("x", block="b0", rack=""), node("y", block="b0", rack="")]
    assert one(lint(nodes, [cluster_topology()], None), "empty-value").nodes == ("x", "y")


def test_l6_drift_is_told_in_the_words_of_the_status() -> None:
    found = lint(hall(), [cluster_topology("a"), cluster_topology("b", rack=RACK)], [kai_topology("a", RACK)])
    told = [(problem.topology, problem.text) for problem in found.problems if problem.code == "drift"]
    assert told == [
        ("a", "KAI Topology levels differ from ClusterTopology levels"),
        ("b", 'KAI Topology "b" not found'),
    ]


def test_l6_a_twin_with_the_same_levels_is_no_drift() -> None:
    assert lint(hall(), [cluster_topology()], [kai_topology("t", BLOCK, RACK, HOSTNAME)]).problems == ()


def test_b2_a_topology_of_the_scheduler_alone_is_looked_at_too() -> None:
    problem = one(lint(hall(), [], [kai_topology("own", "example.com/gone", RACK)]), "level-without-nodes")
    assert problem.topology == "own"


def test_l6_the_figures_are_those_of_the_status() -> None:
    nodes = [*hall(), node("stray", block="b1", rack="b0-r0"), node("out")]
    topology = cluster_topology()
    [checked] = lint(nodes, [topology], None).topologies
    labels = [each.metadata.labels for each in nodes]
    assert list(checked.levels) == level_statuses(topology.spec.levels, labels)
    assert (checked.nodes, checked.levels[1]["notNested"]) == (9, ["b0-r0"])


def test_b2_errors_come_first() -> None:
    levels = {"datacenter": "example.com/dc", "block": BLOCK, "rack": RACK, "host": HOSTNAME}
    found = lint([*hall(), node("x", block="b0")], [cluster_topology("t", **levels)], None)
    assert [problem.severity for problem in found.problems] == sorted(
        (problem.severity for problem in found.problems), key=(ERROR, WARNING, NOTE).index
    )


def test_b2_the_lingjun_topology_has_tors_of_equal_name_and_nothing_else() -> None:
    levels = {"datacenter": "core", "block": "aggregation", "rack": "tor"}
    topology = cluster_topology(
        "lingjun", **{name: f"example.com/{key}" for name, key in levels.items()}, host=HOSTNAME
    )
    found = lint(lingjun(), [topology], None)
    assert [(problem.code, problem.level, len(problem.domains)) for problem in found.problems] == [
        ("equal-names", "rack", 42)
    ]


def test_for_programs_a_problem_has_its_code_and_nodes() -> None:
    told = lint([*hall(), node("x", block="b0")], [cluster_topology()], None).to_json()
    assert {key: told["problems"][0][key] for key in ("severity", "code", "nodes")} == {
        "severity": WARNING,
        "code": "missing-key",
        "nodes": ["x"],
    }
