"""`spinney topology discover`: YAML that admission takes as it is, with its reasons as comments"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from spinney.cli.main import cli
from spinney.cli.options import Screen
from spinney.cli.render.topology_report import proposals_shown
from spinney.core.view.discovery import discover
from unit.cli.topology_golden import EXAMPLES, check, run
from unit.view.clusters import RACK, hall, labelled, lingjun

NODES = EXAMPLES / "nodes"
DESCRIBED = ("laptop", "h100", "gb200", "mixed", "two-halls")


@pytest.mark.parametrize("name", DESCRIBED)
def test_b2_what_is_proposed_is_admitted_and_clean(name: str, tmp_path: Path) -> None:
    text = run("discover", "--nodes", str(NODES / f"{name}.yaml")).output
    path = tmp_path / "proposed.yaml"
    path.write_text(text, encoding="utf-8")
    judged = CliRunner().invoke(cli, ["validate", "-f", str(path), "-o", "json"])
    assert (judged.exit_code, {one["verdict"] for one in json.loads(judged.output)}) == (0, {"allowed"})
    assert all(not one.get("warnings") for one in json.loads(judged.output))
    assert run("lint", "--nodes", str(NODES / f"{name}.yaml"), "-f", str(path)).exit_code == 0


@pytest.mark.parametrize("name", DESCRIBED)
def test_b2_the_text_is_no_wider_than_80_columns(name: str) -> None:
    text = run("discover", "--nodes", str(NODES / f"{name}.yaml")).output
    assert max(map(len, text.splitlines())) <= 80
    check(f"discover-{name}.txt", text)


def test_b2_comments_say_what_was_left_out_offered_and_forgotten() -> None:
    zones = {"topology.kubernetes.io/zone": "z"}
    nodes = [
        labelled(
            f"n{at:02}",
            {RACK: f"r{at // 3}", "nvidia.com/gpu.clique": f"c{at // 3}", "example.com/cage": f"{at // 6}", **zones},
        )
        for at in range(12)
    ]
    nodes.append(labelled("forgotten", zones))
    text = proposals_shown(discover(nodes), Screen())
    check("discover-reasons.txt", text)
    assert [one["kind"] for one in yaml.safe_load_all(text)] == ["ClusterTopology"]


def test_b2_the_lingjun_topology() -> None:
    check("discover-lingjun.txt", proposals_shown(discover(lingjun()), Screen()))


def test_b2_for_programs_there_is_the_manifest() -> None:
    found = json.loads(run("discover", "--nodes", str(NODES / "laptop.yaml"), "-o", "json").output)
    levels = [level["domain"] for level in found["proposals"][0]["manifest"]["spec"]["levels"]]
    assert levels == ["zone", "block", "rack", "host"]


def test_b2_the_name_may_be_given() -> None:
    done = run("discover", "--nodes", str(NODES / "laptop.yaml"), "--name", "mine")
    assert yaml.safe_load(done.output)["metadata"]["name"] == "mine"


@pytest.mark.parametrize("name", ["123", "1e3", "true", "null", "0x1f"])
def test_b2_a_name_that_yaml_would_read_as_something_else_stays_a_name(name: str) -> None:
    done = run("discover", "--nodes", str(NODES / "laptop.yaml"), "--name", name)
    assert yaml.safe_load(done.output)["metadata"]["name"] == name


def test_a_name_that_is_none_is_a_mistake_of_usage() -> None:
    assert run("discover", "--nodes", str(NODES / "laptop.yaml"), "--name", "No Name").exit_code == 2


def test_b2_nothing_to_propose_is_status_1_and_says_why() -> None:
    text = "{apiVersion: v1, kind: Node, metadata: {name: a}}"
    done = run("discover", "--nodes", "-", stdin=text)
    assert (done.exit_code, done.stderr) == (1, "spinney topology discover: there is nothing to propose for 1 node\n")
    assert done.stdout.startswith("# No proposal for node a: no key that divides them")


def test_labels_cannot_break_out_of_a_comment() -> None:
    nodes = [labelled(f"n\n{at}", {RACK: f"r{at // 2}", "example.com/x\ny": f"{at // 2}"}) for at in range(4)]
    [document] = yaml.safe_load_all(proposals_shown(discover(nodes), Screen()))
    assert document["kind"] == "ClusterTopology"


def test_a_sound_hall_has_no_reasons() -> None:
    lines = proposals_shown(discover(hall()), Screen()).splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "# From the labels of 8 nodes (b0-r0-h0, b0-r0-h1 .. b1-r1-h1)."
    ]
