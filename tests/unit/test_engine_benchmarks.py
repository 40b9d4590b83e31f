"""The engine's benchmarks measure what they say: the baseline is greedy, the checks can fail, the runs add up."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import engine
from benchmarks.engine import finding, growth, large, limits, lingjun, memory, speed, tables, trace
from benchmarks.engine.checked import Book
from benchmarks.engine.clocks import Row, percentile
from benchmarks.engine.contenders import both
from benchmarks.greedy import Greedy

from spinney.api.placement.problem import Gang, Group, Node, Options, PodSet, Topology
from spinney.core.inventory.inventory import Inventory
from spinney.core.placement.engine import Engine

TOPOLOGY = Topology("t", ("zone", "rack", "host"))
TOPOLOGIES = {"t": TOPOLOGY}
RESOURCES = ("pods", "nvidia.com/gpu")


def host(name: str, zone: str, rack: str, gpus: int) -> Node:
    return Node(name, {"zone": zone, "rack": rack, "host": name}, (110, gpus), (0, 0), (0, 0))


def pods(name: str, count: int, gpus: int = 1) -> PodSet:
    return PodSet(name, (1, gpus), count, count)


def in_racks(*counts: int) -> Gang:
    groups = tuple(Group(f"s{at}", pods=(pods("w", count),), required="rack") for at, count in enumerate(counts))
    return Gang("g", Group("", groups=groups, topology="t"))


def greedy_hosts(nodes: list[Node], gang: Gang) -> list[str] | None:
    inventory = Inventory.of(RESOURCES, (TOPOLOGY,), nodes)
    before = list(inventory.idle)
    members = Greedy(inventory, TOPOLOGIES).place(gang)
    if members is None:
        assert inventory.idle == before
        return None
    return [inventory.name(slot) for _, slot in members]


def engine_places(nodes: list[Node], gang: Gang) -> bool:
    inventory = Inventory.of(RESOURCES, (TOPOLOGY,), nodes)
    return Engine(inventory, TOPOLOGIES, Options()).decide(gang).outcome == "placed"


def test_the_baseline_fills_the_most_packed_zone_from_its_emptiest_rack() -> None:
    racks = {"A1": 2, "A2": 1, "A3": 1, "A4": 1, "B1": 2, "B2": 2, "B3": 2}
    nodes = [host(f"{rack.lower()}-{at + 1}", rack[0], rack, 1) for rack, size in racks.items() for at in range(size)]
    gang = Gang("g", Group("", pods=(pods("w", 3),), topology="t", required="zone", preferred="rack"))
    assert greedy_hosts(nodes, gang) == ["a1-1", "a1-2", "a4-1"]


def test_the_baseline_never_moves_a_sibling_and_the_engine_does() -> None:
    nodes = [host("x", "z", "r5", 5), host("y", "z", "r6", 6)]
    assert greedy_hosts(nodes, in_racks(5, 3, 3)) == ["x"] * 5 + ["y"] * 6
    assert greedy_hosts(nodes, in_racks(3, 3, 5)) is None
    assert engine_places(nodes, in_racks(3, 3, 5))


def test_the_baseline_counts_every_pod_as_the_largest_and_the_engine_does_not() -> None:
    nodes = [host(f"n{at}", "z", "r", 8) for at in range(3)]
    gang = Gang("g", Group("", pods=(pods("small", 4, 2), pods("large", 1, 8)), topology="t", required="rack"))
    assert greedy_hosts(nodes, gang) is None
    assert engine_places(nodes, gang)


def test_a_baseline_that_is_done_favours_refuses_less() -> None:
    nodes = [host("x", "z", "r5", 5), host("y", "z", "r6", 6)]
    inventory = Inventory.of(RESOURCES, (TOPOLOGY,), nodes)
    assert Greedy(inventory, TOPOLOGIES, largest_first=True).place(in_racks(3, 3, 5)) is not None
    nodes = [host(f"n{at}", "z", "r", 8) for at in range(3)]
    gang = Gang("g", Group("", pods=(pods("small", 4, 2), pods("large", 1, 8)), topology="t", required="rack"))
    inventory = Inventory.of(RESOURCES, (TOPOLOGY,), nodes)
    assert Greedy(inventory, TOPOLOGIES, by_sums=True).place(gang) is not None


def test_the_baseline_spreads_a_preferred_gang_over_racks_of_one_step() -> None:
    nodes = [host(f"n{at:02d}-{rack:03d}", "z", f"r{rack:03d}", 1) for rack in range(100) for at in range(8)]
    gang = Gang("g", Group("", pods=(pods("w", 32),), topology="t", preferred="rack"))
    hosts = greedy_hosts(nodes, gang)
    assert hosts is not None
    assert len({name[-3:] for name in hosts}) == 11


def test_the_baseline_tries_the_next_domain_of_an_ancestor() -> None:
    nodes = [host("a", "z1", "r1", 3), host("b", "z1", "r2", 3), host("c", "z2", "r3", 4), host("d", "z2", "r4", 4)]
    group = Group("s", pods=(pods("w", 4),), required="rack")
    gang = Gang("g", Group("", groups=(group,), pods=(pods("rest", 2),), topology="t", required="zone"))
    assert greedy_hosts(nodes, gang) == ["c"] * 4 + ["d"] * 2


@pytest.mark.parametrize(
    ("members", "broken"),
    [
        pytest.param([("w", "a"), ("w", "b")], 0, id="lawful"),
        pytest.param([("w", "a")], 1, id="a pod is missing"),
        pytest.param([("w", "a"), ("w", "c")], 1, id="two racks"),
        pytest.param([("w", "a"), ("w", "bare")], 1, id="outside the level"),
        pytest.param([("w", "small"), ("w", "a")], 1, id="too little room"),
    ],
)
def test_the_light_check_finds_each_broken_rule(members: list[tuple[str, str]], broken: int) -> None:
    nodes = [host("a", "z", "r", 8), host("b", "z", "r", 8), host("c", "z", "s", 8), host("small", "z", "r", 1)]
    nodes.append(Node("bare", {}, (110, 8), (0, 0), (0, 0)))
    gang = Gang("g", Group("", pods=(pods("w", 2, 4),), topology="t", required="rack"))
    book = Book(nodes, TOPOLOGIES)
    assert book.enter(gang, members) == broken


def test_equal_rack_names_in_two_zones_are_two_racks_to_the_light_check() -> None:
    nodes = [host("a", "z1", "r", 8), host("b", "z2", "r", 8)]
    gang = Gang("g", Group("", pods=(pods("w", 2),), topology="t", required="rack"))
    assert Book(nodes, TOPOLOGIES).enter(gang, [("w", "a"), ("w", "b")]) == 1


def test_a_gang_that_leaves_gives_everything_back() -> None:
    nodes = [host("a", "z", "r", 8), host("b", "z", "r", 8)]
    gang = Gang("g", Group("", pods=(pods("w", 4, 4),), topology="t", required="rack"))
    book = Book(nodes, TOPOLOGIES)
    for contender in both(nodes, TOPOLOGIES, RESOURCES):
        for _ in range(3):
            members = contender.members(contender.decide(gang))
            assert members is not None
            assert book.enter(gang, members) == 0
            contender.leave(gang, members)
            book.leave(gang, members)


def silent(text: str) -> None:
    pass


def lawful(rows: list[Row]) -> list[Row]:
    assert rows
    for case, figures, goal in rows:
        assert case
        assert goal
        assert figures["violations"] in (0, "0 (greedy 0)")
    return rows


def test_small_streams_are_placed_whole_by_both() -> None:
    for _, figures, _ in lawful(speed.run(silent, gangs=3, repeats=1, most_nodes=320)):
        assert figures["placed"] == figures["greedy_placed"] == "3/3"


def test_hard_gangs_fit_by_construction() -> None:
    big, mixed, *hard = lawful(large.run(silent, repeats=1, seeds=2))
    assert big[1]["placed"] == mixed[1]["placed"] == "1/1"
    assert [figures["placed"] for _, figures, _ in hard] == ["2/2", "2/2"]
    assert all(len(large.hard(seed, (1, 2, 4))[1].root.groups) == 40 for seed in range(5))


def test_growth_is_plotted_for_every_size() -> None:
    for _, figures, _ in lawful(growth.run(silent, sizes=(64, 128), times=2, repeats=1)):
        assert len(figures["times_per_step"]) == 1
        assert figures["plot"].count("spinney") == figures["plot"].count("greedy") == 2


def test_memory_is_measured_in_a_process_of_its_own() -> None:
    ((_, figures, _),) = memory.run(silent, nodes=320)
    assert figures["placed"] == 10
    assert figures["process_mb"] > figures["inventory_mb"] >= 0


def test_the_adversarial_gang_asks_for_exactly_what_is_free_in_racks_it_cannot_fill() -> None:
    nodes, gang = limits.adversarial()
    rooms: dict[str, int] = {}
    for node in nodes:
        rack = node.labels["example.com/rack"]
        rooms[rack] = rooms.get(rack, 0) + node.allocatable[-1] - node.used[-1]
    sizes = [group.pods[0].count for group in gang.root.groups]
    assert sum(sizes) == sum(rooms.values())
    assert all(room % 3 for room in rooms.values())
    assert sum(size % 3 != 0 for size in sizes) < len(rooms)


def test_the_engine_finds_every_gang_that_fits() -> None:
    rows = lawful(finding.run(silent, instances=25))
    assert [figures["refused"] for _, figures, _ in rows] == [0, 0]
    assert not any(figures["refused_by_greedy"].startswith("0 ") for _, figures, _ in rows)


@pytest.mark.parametrize(
    ("gpus", "shape", "levels"),
    [
        (3, (1, 3), (trace.HOST, None)),
        (8, (1, 8), (trace.HOST, None)),
        (20, (3, 8), (trace.TOR, None)),
        (64, (8, 8), (trace.TOR, None)),
        (128, (16, 8), (trace.AGGREGATION, trace.TOR)),
    ],
)
def test_jobs_become_gangs_of_whole_hosts(gpus: int, shape: tuple[int, int], levels: tuple[str, str | None]) -> None:
    root = trace.gang("g", gpus).root
    assert (root.pods[0].count, root.pods[0].request[-1]) == shape
    assert (root.required, root.preferred) == levels


def test_the_network_has_the_hosts_and_tors_of_its_origin() -> None:
    nodes = trace.lingjun()
    paths = {tuple(node.labels[level] for level in (trace.CORE, trace.AGGREGATION, trace.TOR)) for node in nodes}
    assert (len(nodes), len(paths)) == (847, 119)
    assert len({path[-1] for path in paths}) < 119


def test_a_workload_asks_for_its_load_and_is_the_same_for_a_seed() -> None:
    mix = trace.philly()
    work = trace.workload(mix, 6_776, 0.9, seed=1)
    asked = sum(job.gpus * job.duration_s for job in work.arrivals) / len(work.arrivals)
    assert asked == pytest.approx(0.9 * 6_776)
    assert sum(job.gpus for job in work.residents) == pytest.approx(0.9 * 6_776, abs=64)
    assert work == trace.workload(mix, 6_776, 0.9, seed=1)


def test_the_simulated_cluster_is_never_overfull() -> None:
    for _, figures, _ in lawful(lingjun.run(silent, loads=(0.95,), seeds=(1,), number=80)):
        assert figures["load"].startswith("9")


def test_broken_rules_of_all_rows_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [
        ("one", {"violations": 2}, "0"),
        ("two", {"violations": "3 (greedy 4)"}, "0"),
        ("three", {}, "0"),
    ]
    monkeypatch.setattr(speed, "run", lambda say: rows)
    assert engine.run(silent, ["speed"])[-1][1] == {"violations": 9}


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (50.0, 99.0, 7.0)


def test_figures_replace_those_behind_the_mark(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"kept\n\n{tables.MARK}\n\nold figures\n")
    rows: list[Row] = [("a", {"ms": 1}, "x"), ("b", {"ms": 2}, "y"), ("c", {"mb": 3, "plot": "\n#"}, "z")]
    tables.write(rows, readme)
    text = readme.read_text()
    assert text.startswith(f"kept\n\n{tables.MARK}\n\n| case | ms | goal |\n")
    assert "old figures" not in text
    assert "| b | 2 | y |\n\n| case | mb | goal |" in text
    assert text.endswith("```text\n#\n```\n")
