"""`spinney topology show`: trees with occupancy and gangs, fitted to the screen, short where nothing differs"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from spinney.cli.options import Screen
from spinney.cli.render.topology_tree import MOST_ROWS, RowSelection, rows_of, shown
from spinney.core.view.topology_index import view_of
from spinney.core.view.tree import View
from unit.cli.topology_cluster import busy
from unit.cli.topology_golden import EXAMPLES, check, run
from unit.view.clusters import RACK, cluster_topology, hall, kai_topology, lingjun, node, pod

HALLS = ("--nodes", str(EXAMPLES / "nodes" / "two-halls.yaml"), "-f", str(EXAMPLES / "topologies"))
SHOWN = {
    "show.txt": (),
    "show-rack.txt": ("--level", "rack"),
    "show-gang.txt": ("--gang", "default/llm-0"),
    "show-all.txt": ("hall", "--all"),
    "show.json": ("-o", "json"),
}


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(busy(), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", list(SHOWN))
def test_b2_in_a_pipe_it_is_80_columns_wide_and_plain(cluster: str, name: str) -> None:
    done = run("show", *SHOWN[name], "-f", cluster)
    assert done.exit_code == 0
    assert "\x1b" not in done.output
    if not name.endswith("json"):
        assert max(map(len, done.output.splitlines())) <= 80
    check(name, done.output)


def test_b2_a_wide_terminal_is_used(cluster: str) -> None:
    done = run("show", "-f", cluster, columns=140)
    assert 80 < max(map(len, done.output.splitlines())) <= 140
    check("show-wide.txt", done.output)


def test_b2_two_kinds_of_hardware_are_two_trees() -> None:
    check("show-two-halls.txt", run("show", *HALLS).output)


def test_yaml_says_the_same_as_json(cluster: str) -> None:
    told = [run("show", "-o", each, "-f", cluster).output for each in ("json", "yaml")]
    assert json.loads(told[0]) == yaml.safe_load(told[1])


def test_k15_for_programs_a_gang_has_its_figures(cluster: str) -> None:
    [told] = json.loads(run("show", "-o", "json", "--gang", "default/llm-0", "-f", cluster).output)
    assert told["gang"] == {"gang": "default/llm-0", "bound": 6, "waiting": 1, "topology": "hall"}


def test_a_screen_without_unicode_gets_ascii(cluster: str) -> None:
    view = view_of(hall(), [pod("a", "b0-r0-h0", "g")], cluster_topologies=[cluster_topology()])
    assert shown(view, view.trees, RowSelection(), Screen(is_unicode=False)).isascii()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    long = "a-node-with-a-name-that-is-much-longer-than-anybody-would-like-to-read-or-write"
    nodes = [*hall(), node(f"{long}-1", block=long, rack=f"{long}-r"), node(f"{long}-2")]
    pods = [pod(f"p{at}", f"{long}-1", f"gang-{at}-of-many-{long}") for at in range(5)]
    view = view_of(nodes, pods, cluster_topologies=[cluster_topology()])
    for wish in (RowSelection(), RowSelection(is_all=True), RowSelection(gang=f"ns/gang-1-of-many-{long}")):
        lines = shown(view, view.trees, wish, Screen(width)).splitlines()
        drawn = [line for line in lines if "/" in line and ("─" in line or line.startswith(("(all)", "DOMAIN")))]
        assert max(map(len, drawn)) <= width


def test_a_deep_tree_on_a_narrow_screen_keeps_its_columns_and_figures() -> None:
    done = run(
        "show", "--nodes", str(EXAMPLES / "nodes" / "laptop.yaml"), "-f", str(EXAMPLES / "topology.yaml"), columns=40
    )
    lines = done.output.splitlines()
    drawn = [line for line in lines if "/" in line and "·" in line]
    assert len({line.index("··") for line in drawn}) == 1
    assert max(map(len, lines)) <= 40
    assert "0 of 128 nvidia.com/gpu used, 128 free" in " ".join(" ".join(lines).split())


def test_b2_nodes_that_take_no_pods_are_counted_and_a_domain_without_a_name_is_seen() -> None:
    nodes = [node("n0", block="b0", rack=""), node("n1", block="b0", rack="r1")]
    nodes.append(node("n2", block="b0", rack="r1", cordoned=True))
    view = view_of(nodes, cluster_topologies=[cluster_topology()])
    assert '   ├─ ""' in listed(view)
    assert {row.state for row in rows_of(view.trees[0], RowSelection()).rows[:2]} == {"1 of 3 takes no pods"}


def listed(view: View, wish: RowSelection = RowSelection()) -> list[str]:  # noqa: B008 - a frozen value
    return [f"{row.branch}{row.name}" for row in rows_of(view.trees[0], wish).rows]


def test_b2_runs_of_equal_domains_are_one_row() -> None:
    view = view_of(hall(1, 5, 4), cluster_topologies=[cluster_topology()])
    assert listed(view) == ["(all)", "└─ b0", "   └─ 5 × b0-r0..r4", "      └─ 4 × host"]


def test_b2_a_domain_that_differs_ends_a_run() -> None:
    view = view_of(hall(1, 9, 1), [pod("a", "b0-r4-h0")], cluster_topologies=[cluster_topology()])
    rows = [row for row in listed(view, RowSelection(level="rack")) if "─ " in row][1:]
    assert [row.strip("├└─│ ") for row in rows] == ["4 × b0-r0..r3", "b0-r4", "4 × b0-r5..r8"]


def test_b2_all_shows_every_host() -> None:
    view = view_of(hall(2, 5, 4), cluster_topologies=[cluster_topology()])
    assert len(listed(view, RowSelection(is_all=True))) == 1 + 2 + 10 + 40


def test_b2_hosts_below_the_narrowest_level_are_shown_only_on_demand() -> None:
    view = view_of(hall(1, 2, 2), topologies=[kai_topology("t", RACK)])
    assert (len(listed(view)), len(listed(view, RowSelection(is_all=True)))) == (3, 7)


def test_b2_many_hosts_are_folded_and_the_way_to_see_them_is_told() -> None:
    nodes = [node(f"n{at}", gpus=1 + at % 7, block=f"b{at % 3}", rack=f"b{at % 3}-r{at % 24}") for at in range(500)]
    view = view_of(nodes, cluster_topologies=[cluster_topology()])
    listing = rows_of(view.trees[0], RowSelection())
    assert len(listing.rows) <= MOST_ROWS
    assert listing.notes == ("hosts are folded: --level host or --all shows them",)


def test_b2_a_flat_tree_of_many_domains_is_cut_and_the_rest_counted() -> None:
    nodes = [node(f"n{at}", gpus=1 + at % 7, rack=f"r{at}") for at in range(500)]
    listing = rows_of(view_of(nodes, topologies=[kai_topology("t", RACK)]).trees[0], RowSelection())
    assert len(listing.rows) == MOST_ROWS
    assert listing.notes[-1] == "441 more rows: --all shows everything"


def test_k15_of_one_gang_only_its_domains_are_shown_and_the_others_counted() -> None:
    view = view_of(hall(), [pod("a", "b0-r1-h1", "g")], cluster_topologies=[cluster_topology()])
    assert [row.strip("├└─│ ") for row in listed(view, RowSelection(gang="ns/g"))] == [
        "(all)",
        "b0",
        "b0-r1",
        "b0-r1-h1",
        "1 other host",
        "1 other rack",
        "1 other block",
    ]


def test_k15_the_heading_of_a_gang_says_in_which_domain_it_is(cluster: str) -> None:
    lines = run("show", "-f", cluster, "--gang", "default/llm-0").output.splitlines()
    assert "default/llm-0: 6 of 7 pods placed, 6 of them in block b0" in lines
    assert "1 pod without a node: spinney explain default/llm-0" in lines


def test_k15_a_gang_over_several_domains_is_told_by_their_number() -> None:
    pods = [pod("a", "b0-r0-h0", "g"), pod("b", "b1-r0-h0", "g")]
    view = view_of(hall(), pods, cluster_topologies=[cluster_topology()])
    assert "2 of them in 2 blocks" in shown(view, view.trees, RowSelection(gang="ns/g"), Screen())


def test_k15_a_gang_that_waits_is_told_as_waiting(cluster: str) -> None:
    done = run("show", "-f", cluster, "--gang", "research/idle")
    assert (done.exit_code, "research/idle: 0 of 0 pods placed, none of them in this topology" in done.output) == (
        0,
        True,
    )


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (("elsewhere",), "there is no topology elsewhere, found: hall"),
        (("--level", "shelf"), "no topology has a level shelf, found: block, host, rack"),
        (("--gang", "a/b"), "there is no gang a/b: no PodGroup of that name, and no pod that names it"),
    ],
)
def test_what_is_not_there_is_one_line_and_status_1(cluster: str, asked: tuple[str, ...], answer: str) -> None:
    done = run("show", *asked, "-f", cluster)
    assert (done.exit_code, done.stderr, done.stdout) == (1, f"spinney topology show: {answer}\n", "")


def test_without_a_topology_it_says_where_to_get_one() -> None:
    done = run("show", *HALLS[:2])
    assert (done.exit_code, "spinney topology discover" in done.stderr) == (1, True)


def test_names_cannot_command_the_terminal() -> None:
    nodes = [node("n\x1b[31m", block="b\x1b]0;", rack="r\n")]
    view = view_of(nodes, [pod("a", "n\x1b[31m", "g\x1b[1m")], cluster_topologies=[cluster_topology()])
    text = shown(view, view.trees, RowSelection(), Screen())
    assert all(char.isprintable() or char == "\n" for char in text)


def test_the_lingjun_topology_is_short_at_first_and_complete_on_demand() -> None:
    keys = [f"example.com/{name}" for name in ("core", "aggregation", "tor")]
    view = view_of(lingjun(), topologies=[kai_topology("lingjun", *keys, "kubernetes.io/hostname")])
    assert listed(view) == ["(all)", "└─ G6", "   ├─ P8", "   ├─ P10", "   └─ P12"]
    assert len(listed(view, RowSelection(is_all=True))) == 1 + 1 + 3 + 119 + 847


@pytest.mark.parametrize(("setting", "is_colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colors_are_for_terminals_that_want_them(cluster: str, setting: dict[str, str], is_colored: bool) -> None:
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    command = [sys.executable, "-m", "spinney.cli.main", "topology", "show", "-f", cluster]
    done = subprocess.Popen(command, stdout=theirs, env={**environment, "TERM": "xterm", **setting})
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65_536):
            text += part
    except OSError:
        pass
    finally:
        os.close(ours)
    assert (done.wait(), b"\x1b[" in text) == (0, is_colored)


def test_b2_several_accelerators_are_told_each_where_it_is() -> None:
    other = node("b", gpus=0, rack="r1")
    other = replace(other, status=replace(other.status, allocatable={"cpu": "64", "amd.com/gpu": "4"}))
    nodes = [node("a", rack="r0"), other, node("c", gpus=0, rack="r2")]
    view = view_of(nodes, [pod("p", "a", "g", gpus=2)], topologies=[kai_topology("t", RACK)])
    told = shown(view, view.trees, RowSelection(), Screen()).splitlines()
    assert told[1] == "3 nodes, 2 of 8 nvidia.com/gpu used, 6 free; 0 of 4 amd.com/gpu used, 4 free"
    rows = [line.split() for line in told if line.startswith(("├", "└"))]
    assert [(row[1], row[4], row[5:]) for row in rows] == [
        ("r0", "2/8", ["g", "×1"]),
        ("r1", "0/4", ["amd.com/gpu"]),
        ("r2", "0/64", ["cpu"]),
    ]
