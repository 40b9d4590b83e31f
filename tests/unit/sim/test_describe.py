"""Nodes files: both forms are read, and whatever cannot be read is refused with its line and field."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from spinney.whatif.inputs.nodes import DEFAULT_NODES, NodesError, load_nodes

EXAMPLES = Path(__file__).parents[3] / "examples" / "nodes"


@pytest.mark.parametrize(
    ("file", "count"),
    [
        ("laptop.yaml", 16),
        ("gb200.yaml", 2 * 8 * 18 + 8),
        ("h100.yaml", 46),
        ("mixed.yaml", 7),
        ("two-halls.yaml", 16),
    ],
)
def test_every_example_can_be_loaded(file: str, count: int) -> None:
    nodes = load_nodes(EXAMPLES / file)
    assert len(nodes) == count == len({node["metadata"]["name"] for node in nodes})


def test_the_default_is_the_laptop_example() -> None:
    assert (EXAMPLES / "laptop.yaml").read_text() == DEFAULT_NODES
    assert load_nodes() == load_nodes(EXAMPLES / "laptop.yaml")


def test_a_node_carries_the_label_of_every_level() -> None:
    labels = load_nodes()[5]["metadata"]["labels"]
    assert labels["topology.kubernetes.io/zone"] == "z0"
    assert labels["topology.kubernetes.io/block"] == "z0-b0"
    assert labels["topology.kubernetes.io/rack"] == "z0-b0-r1"
    assert labels["kubernetes.io/hostname"] == "z0-b0-r1-n1"


def test_a_rack_of_gb200_is_one_nvlink_clique_of_eighteen() -> None:
    cliques = Counter(
        node["metadata"]["labels"].get("nvidia.com/gpu.clique") for node in load_nodes(EXAMPLES / "gb200.yaml")
    )
    del cliques[None]
    assert set(cliques.values()) == {18}
    assert len(cliques) == 16


def test_counts_may_differ_by_parent() -> None:
    nodes = load_nodes("levels: [{name: rack, label: r, count: 2}, {name: host, count: [3, 1]}]")
    assert [node["metadata"]["name"] for node in nodes] == ["r0-h0", "r0-h1", "r0-h2", "r1-h0"]


def test_names_are_padded_so_that_they_sort() -> None:
    names = [node["metadata"]["name"] for node in load_nodes("levels: [{name: host, count: 12}]")]
    assert names == sorted(names)
    assert names[0] == "h00"


def test_capacity_left_out_gets_the_usual() -> None:
    (node,) = load_nodes("levels: [{name: host, count: 1}]\ncapacity: {nvidia.com/gpu: 8}\nallocatable: {cpu: 7}")
    assert node["status"]["capacity"] == {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "8"}
    assert node["status"]["allocatable"]["cpu"] == "7"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_a_list_of_nodes_is_read() -> None:
    nodes = load_nodes("kind: List\napiVersion: v1\nitems: [{metadata: {name: a}}, {kind: Node, metadata: {name: b}}]")
    assert [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in nodes] == ["a", "b"]


REFUSED = {
    "not YAML": ("levels: {a: b\n", r"text:2:1: not YAML"),
    "nothing in it": ("# empty\n", "found no nodes"),
    "another kind": ("kind: Pod\n", r"text:1: kind: found 'Pod', allowed: Node \| List"),
    "a list": ("- a\n", r"text:1: document: found \['a'\], allowed: a mapping"),
    "no levels": ("capacity: {cpu: 1}\n", "levels: found nothing, allowed: a list of"),
    "an unknown field": (
        "levels: [{name: h, count: 1}]\ncolour: red\n",
        "text:2: colour: found 'colour', allowed: one of name",
    ),
    "a count that is a word": (
        "levels:\n  - {name: r, label: r, count: 1}\n  - name: h\n    count: many\n",
        r"text:4: levels\[1\].count: found 'many', allowed: a number",
    ),
    "too few counts": (
        "levels: [{name: r, label: r, count: 3}, {name: h, count: [1, 2]}]",
        "one for each of 3 parents",
    ),
    "too many nodes": ("levels: [{name: r, label: r, count: 9999}, {name: h, count: 9999}]", "at most 200000"),
    "too many levels": (
        "levels: [" + ", ".join(f"{{name: l{n}, label: x/l{n}, count: 1}}" for n in range(40)) + "]",
        "levels: found 40, allowed: at most 32 levels",
    ),
    "annotations that multiply": (
        "levels: [{name: r, label: r, count: 1000}, {name: h, count: 200}]\nannotations: {k: '" + "{r}" * 80_000 + "'}",
        r"characters of labels, annotations and resource.*allowed: 256 MiB in all",
    ),
    "a level without label": (
        "levels: [{name: r, count: 1}, {name: h, count: 1}]",
        r"levels\[0\].label: found nothing",
    ),
    "two levels of one name": (
        "levels: [{name: r, label: r, count: 1}, {name: r, count: 1}]",
        r"levels\[1\].name: found 'r', allowed: a name that no other level has",
    ),
    "a wrong quantity": ("levels: [{name: h, count: 1}]\ncapacity: {cpu: lots}", "text:2: capacity.cpu: found 'lots'"),
    "a wrong effect": (
        "levels: [{name: h, count: 1}]\ntaints: [{key: a, effect: Never}]",
        r"taints\[0\].effect: found 'Never', allowed: NoSchedule \| PreferNoSchedule \| NoExecute",
    ),
    "an unknown placeholder": (
        "levels: [{name: h, count: 1}]\nlabels: {a: '{rack}'}",
        "labels.a: found '{rack}', allowed: one of {h}",
    ),
    "the same name twice": (
        "levels: [{name: h, count: 1}]\n---\nkind: Node\nmetadata: {name: h0}\n",
        "text:3: node 'h0' is described already, in document 1",
    ),
    "a node without a name": ("kind: Node\nmetadata: {}\n", "text:2: metadata.name: found nothing"),
    "a name in capitals": ("kind: Node\nmetadata:\n  name: NodeA\n", "text:3: metadata.name: found 'NodeA'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_file_is_refused_with_its_line(case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(NodesError, match=message):
        load_nodes(text)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(NodesError, match=r"no-such-file\.yaml: cannot be read"):
        load_nodes(Path("no-such-file.yaml"))
