"""Reading a problem: what every field means, what may be left out, and which field is named when it cannot be read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from spinney.api.placement.problem import ANY_NODE, NodeTerm, Options, PreferredTerm, Problem, Taint, Term, Toleration
from spinney.api.placement.reading import Unreadable, read_problem

Document = dict[str, Any]

BASE: Document = {
    "version": 1,
    "resources": ["cpu", "memory", "pods", "nvidia.com/gpu"],
    "topologies": [{"name": "t", "levels": ["zone", "rack"]}],
    "nodes": [
        {"name": "n0", "labels": {"zone": "a", "rack": "r0"}, "allocatable": {"cpu": "8", "pods": 10}},
        {"name": "n1"},
    ],
    "gangs": [
        {
            "name": "ns/g",
            "topology": "t",
            "groups": [{"name": "a", "groups": [{"name": "b", "pods": [{"name": "w", "count": 2}]}]}],
            "pods": [{"name": "solo", "request": {"cpu": "1"}}],
            "running": [{"pods": "a/b/w", "node": "n1"}],
        },
        {"name": "other", "pods": [{"name": "p"}]},
    ],
}
SOLO = ("gangs", 0, "pods", 0)
NODE = ("nodes", 0)


def changed(path: tuple[str | int, ...], value: Any) -> Document:
    document = copy.deepcopy(BASE)
    part: Any = document
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    return document


def without(*path: str | int) -> Document:
    document = copy.deepcopy(BASE)
    part: Any = document
    for step in path[:-1]:
        part = part[step]
    del part[path[-1]]
    return document


def solo(**fields: Any) -> Any:
    """The pod set of a problem that has these fields."""
    return read_problem(changed(SOLO, {"name": "solo", **fields})).gangs[0].root.pods[0]


def node(**fields: Any) -> Any:
    return read_problem(changed(NODE, {"name": "n0", **fields})).nodes[0]


def refusal(document: Any) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        read_problem(document)
    return caught.value


def test_left_out_fields_have_the_defaults_of_the_format() -> None:
    problem = read_problem(BASE)
    gang, pods, first = problem.gangs[1], problem.gangs[1].root.pods[0], problem.nodes[1]
    assert (gang.priority, gang.preemptible, gang.tied_to, gang.running) == (0, True, None, ())
    assert (gang.root.name, gang.root.min_groups, gang.root.topology) == ("", None, None)
    assert (pods.count, pods.min, pods.filter, pods.host_ports, pods.anti_affinity) == (1, 1, ANY_NODE, frozenset(), ())
    assert (first.ready, first.unschedulable, first.taints, dict(first.labels)) == (True, False, (), {})
    assert problem.options == Options("binpack", 100_000, False, "place", None)


def test_min_is_the_count_unless_it_is_given() -> None:
    assert (solo(count=7).min, solo(count=7, min=3).min, solo(count=7, min=0).min) == (7, 3, 0)


@pytest.mark.parametrize(
    "path",
    [
        ("topologies",),
        ("options",),
        (*NODE, "labels"),
        (*NODE, "allocatable"),
        (*NODE, "used"),
        (*NODE, "releasing"),
        (*NODE, "taints"),
        (*NODE, "unschedulable"),
        (*NODE, "ready"),
        (*NODE, "hostPorts"),
        ("gangs", 1, "priority"),
        ("gangs", 1, "preemptible"),
        ("gangs", 1, "topology"),
        ("gangs", 1, "required"),
        ("gangs", 1, "preferred"),
        ("gangs", 1, "minGroups"),
        ("gangs", 1, "tiedTo"),
        ("gangs", 1, "groups"),
        ("gangs", 1, "running"),
        *((*SOLO, name) for name in ("count", "min", "request", "nodeSelector", "tolerations", "affinity")),
        *((*SOLO, name) for name in ("hostPorts", "antiAffinity", "topology", "required", "preferred")),
    ],
    ids=str,
)
def test_null_is_the_same_as_leaving_out(path: tuple[str | int, ...]) -> None:
    document = changed(path, None)
    bare = copy.deepcopy(document)
    part: Any = bare
    for step in path[:-1]:
        part = part[step]
    del part[path[-1]]
    assert read_problem(document) == read_problem(bare)


def test_null_options_have_their_defaults() -> None:
    options = dict.fromkeys(("strategy", "budget", "preempt", "extras", "consolidate"))
    assert read_problem(changed(("options",), options)).options == Options()
    part = read_problem(changed(("options",), {"consolidate": {"maxMoves": None}})).options.consolidate
    assert part is not None
    assert (part.max_moves, part.max_loss) == (8, 0.0)


def test_requests_and_used_round_up_allocatable_and_releasing_down() -> None:
    odd = {"cpu": "1.0005", "memory": "1000500m", "nvidia.com/gpu": 2.5}
    assert solo(request=odd).request == (1001, 1001, 1, 3)
    found = node(allocatable=odd, used=odd, releasing=odd)
    assert found.used == (1001, 1001, 0, 3)
    assert found.allocatable == found.releasing == (1000, 1000, 0, 2)


def test_amounts_are_quantities_or_plain_numbers() -> None:
    assert node(allocatable={"cpu": "1500m"}).allocatable[0] == 1500
    assert node(allocatable={"cpu": 1.5}).allocatable[0] == 1500
    assert node(allocatable={"cpu": 2}).allocatable[0] == 2000
    assert node(allocatable={"memory": "1Ti"}).allocatable[1] == 2**40
    assert node(allocatable={"memory": 2**63 - 1}).allocatable[1] == 2**63 - 1
    assert node(allocatable={"memory": "2e3"}).allocatable[1] == 2000


def test_a_resource_that_a_node_does_not_list_is_zero_pods_included() -> None:
    assert node(allocatable={"cpu": 1}).allocatable == (1000, 0, 0, 0)


@pytest.mark.parametrize("written", [{}, {"pods": 5}, {"pods": "0"}])
def test_a_request_costs_exactly_one_of_pods_whatever_it_says(written: Document) -> None:
    assert solo(request=written).request == (0, 0, 1, 0)


def test_pods_cost_nothing_where_resources_do_not_list_them() -> None:
    document = {"version": 1, "resources": ["cpu"], "nodes": [], "gangs": [{"name": "g", "pods": [{"name": "p"}]}]}
    assert read_problem(document).gangs[0].root.pods[0].request == (0,)


def test_what_is_releasing_is_a_part_of_what_is_used() -> None:
    assert node(used={"cpu": 2}, releasing={"cpu": 2}).releasing[0] == 2000
    assert refusal(changed(NODE, {"name": "n0", "releasing": {"cpu": 1}})).field == "nodes[0].releasing.cpu"


def test_a_million_pods_are_one_number() -> None:
    assert solo(count=1_000_000).count == 1_000_000


def test_groups_and_pods_stand_side_by_side_at_any_depth() -> None:
    root = read_problem(BASE).gangs[0].root
    assert root.groups[0].groups[0].pods[0].name == "w"
    assert root.pods[0].name == "solo"


def test_names_keep_their_upper_case() -> None:
    assert solo(topology="T", required="Rack").required == "Rack"


def test_a_selector_is_sorted_and_equal_filters_are_one_value() -> None:
    document = changed((*SOLO, "nodeSelector"), {"b": "2", "a": "1"})
    document["gangs"][1]["pods"][0]["nodeSelector"] = {"a": "1", "b": "2"}
    one, two = (gang.root.pods[0].filter for gang in read_problem(document).gangs)
    assert one.selector == (("a", "1"), ("b", "2"))
    assert one is two


def test_node_affinity_is_read_as_in_a_pod_spec() -> None:
    term = {
        "matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
            {"key": "gpu", "operator": "Exists"},
            {"key": "size", "operator": "Gt", "values": ["3"]},
        ],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
    }
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, {}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {}}],
    }
    found = solo(affinity={"nodeAffinity": affinity}).filter
    assert found.required == (
        NodeTerm(
            (Term("zone", "In", ("a", "b")), Term("gpu", "Exists"), Term("size", "Gt", ("3",))),
            (Term("metadata.name", "NotIn", ("n1",)),),
        ),
        NodeTerm(),
    )
    assert found.preferred == (PreferredTerm(5, NodeTerm()),)


def test_affinity_without_terms_is_no_requirement() -> None:
    assert solo(affinity={}).filter == ANY_NODE
    assert solo(affinity={"nodeAffinity": {}}).filter.required is None


@pytest.mark.parametrize("name", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity_is_read_so_that_it_can_be_answered_invalid(name: str) -> None:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}
    assert name in solo(affinity={name: terms}).unsupported
    assert solo(affinity={name: None}).unsupported == ""
    assert solo(affinity={name: {}}).unsupported == ""


def test_taints_and_tolerations_are_read_as_kubernetes_writes_them() -> None:
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    assert node(taints=[taint]).taints == (Taint("k", "", "NoExecute"),)
    tolerations = [{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 9}]
    assert solo(tolerations=tolerations).filter.tolerations == (
        Toleration("", "Exists"),
        Toleration("k", "Equal", "v", "NoExecute"),
    )


def test_ports_and_anti_affinity_keys() -> None:
    found = solo(hostPorts=[80, 443, 80], antiAffinity=["kubernetes.io/hostname"])
    assert found.host_ports == {80, 443}
    assert found.anti_affinity == ("kubernetes.io/hostname",)
    assert node(hostPorts=[22]).host_ports == {22}


def test_running_members_ties_and_options_are_read() -> None:
    document = changed(("gangs", 1, "tiedTo"), {"gang": "nobody", "level": "zone"})
    document["options"] = {
        "strategy": "spread",
        "budget": 5,
        "preempt": True,
        "extras": "skip",
        "consolidate": {"maxLoss": 1},
    }
    problem = read_problem(document)
    assert [(one.pods, one.node) for one in problem.gangs[0].running] == [("a/b/w", "n1")]
    assert problem.gangs[1].tied_to is not None
    assert problem.options.consolidate is not None
    assert problem.options.consolidate.max_loss == 1.0
    assert (problem.options.strategy, problem.options.budget, problem.options.extras) == ("spread", 5, "skip")


INVALID: dict[str, Callable[[], Document]] = {
    "unknown topology": lambda: changed(("gangs", 0, "topology"), "nowhere"),
    "topology without levels": lambda: changed(("topologies", 0, "levels"), []),
    "unknown level": lambda: changed((*SOLO, "required"), "nowhere"),
    "level without a topology": lambda: changed(("gangs", 1, "preferred"), "rack"),
    "min above count": lambda: changed((*SOLO, "min"), 9),
    "minGroups too high": lambda: changed(("gangs", 0, "minGroups"), 9),
    "minGroups negative": lambda: changed(("gangs", 0, "groups", 0, "minGroups"), -1),
    "minGroups enormous": lambda: changed(("gangs", 0, "minGroups"), 10**30),
    "duplicate child names": lambda: changed(("gangs", 0, "pods"), [{"name": "a"}, {"name": "a"}]),
    "more running than count": lambda: changed(("gangs", 0, "running"), [{"pods": "solo", "node": "n0"}] * 2),
    "tied at a level of no topology": lambda: changed(("gangs", 1, "tiedTo"), {"gang": "ns/g", "level": "x"}),
    "tied to nobody": lambda: changed(("gangs", 0, "tiedTo"), {"gang": "nobody", "level": "rack"}),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_has_an_answer_is_read(name: str) -> None:
    assert isinstance(read_problem(INVALID[name]()), Problem)


LONG = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def _term(**fields: Any) -> Document:
    return {"nodeAffinity": {LONG: {"nodeSelectorTerms": [{}, {"matchExpressions": [{"key": "k", **fields}]}]}}}


def _field(**fields: Any) -> Document:
    return {"nodeAffinity": {SOFT: [{"weight": 1, "preference": {"matchFields": [fields]}}]}}


HARD = f"gangs[0].pods[0].affinity.nodeAffinity.{LONG}.nodeSelectorTerms[1].matchExpressions[0]"
WISH = f"gangs[0].pods[0].affinity.nodeAffinity.{SOFT}[0]"
UNREADABLE: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "unknown version": (("version",), 2, "version"),
    "version as text": (("version",), "1", "version"),
    "version as boolean": (("version",), True, "version"),
    "null nodes": (("nodes",), None, "nodes"),
    # unknown fields
    "unknown field": (("extra",), 1, "extra"),
    "unknown node field": ((*NODE, "capacity"), {}, "nodes[0].capacity"),
    "unknown pod field": ((*SOLO, "requests"), {}, "gangs[0].pods[0].requests"),
    "unknown option": (("options",), {"seed": 1}, "options.seed"),
    "unknown affinity": ((*SOLO, "affinity"), {"nodeaffinity": {}}, "gangs[0].pods[0].affinity.nodeaffinity"),
    "snake case": (("gangs", 0, "min_groups"), 1, "gangs[0].min_groups"),
    "odd key": (("a`b\n",), 1, "a`b\\n"),
    # types
    "nodes as object": (("nodes",), {}, "nodes"),
    "node as text": (("nodes", 1), "n1", "nodes[1]"),
    "name as number": ((*NODE, "name"), 7, "nodes[0].name"),
    "label as number": ((*NODE, "labels", "example.com/x"), 7, "nodes[0].labels.example.com/x"),
    "label as boolean": ((*NODE, "labels", "on"), True, "nodes[0].labels.on"),
    "label key as number": ((*NODE, "labels", 7), "x", "nodes[0].labels"),
    "key as number": ((7,), "x", ""),
    "selector value": ((*SOLO, "nodeSelector"), {"a": "b", "x": None}, "gangs[0].pods[0].nodeSelector.x"),
    "ready as text": ((*NODE, "ready"), "true", "nodes[0].ready"),
    "ready as number": ((*NODE, "ready"), 1, "nodes[0].ready"),
    "count as text": ((*SOLO, "count"), "2", "gangs[0].pods[0].count"),
    "count as boolean": ((*SOLO, "count"), True, "gangs[0].pods[0].count"),
    "count as fraction": ((*SOLO, "count"), 1.5, "gangs[0].pods[0].count"),
    "priority as text": (("gangs", 0, "priority"), "high", "gangs[0].priority"),
    "level as list": (("gangs", 0, "required"), ["rack"], "gangs[0].required"),
    "affinity as list": ((*SOLO, "affinity"), [], "gangs[0].pods[0].affinity"),
    "pod affinity as text": ((*SOLO, "affinity"), {"podAffinity": "x"}, "gangs[0].pods[0].affinity.podAffinity"),
    "port as text": ((*SOLO, "hostPorts"), [80, "81"], "gangs[0].pods[0].hostPorts[1]"),
    # names
    "duplicate nodes": (("nodes", 1, "name"), "n0", "nodes[1].name"),
    "duplicate gangs": (("gangs", 1, "name"), "ns/g", "gangs[1].name"),
    "duplicate topologies": (("topologies",), [{"name": "t"}] * 2, "topologies[1].name"),
    "duplicate levels": (("topologies", 0, "levels"), ["a", "b", "a"], "topologies[0].levels[2]"),
    "duplicate resources": (("resources",), ["cpu", "cpu"], "resources[1]"),
    "empty node name": ((*NODE, "name"), "", "nodes[0].name"),
    "empty pod set name": ((*SOLO, "name"), "", "gangs[0].pods[0].name"),
    "slash in a group name": (("gangs", 0, "groups", 0, "name"), "a/b", "gangs[0].groups[0].name"),
    "unknown running pod set": (("gangs", 0, "running", 0, "pods"), "w", "gangs[0].running[0].pods"),
    "running group": (("gangs", 0, "running", 0, "pods"), "a/b", "gangs[0].running[0].pods"),
    "unknown running node": (("gangs", 0, "running", 0, "node"), "n9", "gangs[0].running[0].node"),
    # amounts
    "request of an unlisted resource": ((*SOLO, "request"), {"amd.com/gpu": 0}, "gangs[0].pods[0].request.amd.com/gpu"),
    "unlisted resource of a node": ((*NODE, "allocatable"), {"disk": 1}, "nodes[0].allocatable.disk"),
    "unlisted used": ((*NODE, "used"), {"disk": 1}, "nodes[0].used.disk"),
    "unlisted releasing": ((*NODE, "releasing"), {"disk": 1}, "nodes[0].releasing.disk"),
    "negative request": ((*SOLO, "request"), {"cpu": "-1"}, "gangs[0].pods[0].request.cpu"),
    "slightly negative": ((*NODE, "allocatable"), {"memory": -0.5}, "nodes[0].allocatable.memory"),
    "bad quantity": ((*SOLO, "request"), {"cpu": 1, "memory": "1 Gi"}, "gangs[0].pods[0].request.memory"),
    "empty quantity": ((*SOLO, "request"), {"cpu": ""}, "gangs[0].pods[0].request.cpu"),
    "boolean quantity": ((*SOLO, "request"), {"cpu": True}, "gangs[0].pods[0].request.cpu"),
    "null quantity": ((*SOLO, "request"), {"cpu": None}, "gangs[0].pods[0].request.cpu"),
    "list quantity": ((*SOLO, "request"), {"cpu": []}, "gangs[0].pods[0].request.cpu"),
    "not a number": ((*SOLO, "request"), {"cpu": float("nan")}, "gangs[0].pods[0].request.cpu"),
    "infinity": ((*SOLO, "request"), {"cpu": float("inf")}, "gangs[0].pods[0].request.cpu"),
    "over int64": ((*SOLO, "request"), {"memory": 2**63}, "gangs[0].pods[0].request.memory"),
    "over int64 in binary": ((*SOLO, "request"), {"memory": "8Ei"}, "gangs[0].pods[0].request.memory"),
    "over int64 in milli": ((*SOLO, "request"), {"cpu": 2**60}, "gangs[0].pods[0].request.cpu"),
    "enormous number": ((*SOLO, "request"), {"cpu": 10**5000}, "gangs[0].pods[0].request.cpu"),
    "enormous text": ((*SOLO, "request"), {"cpu": "9" * 9999}, "gangs[0].pods[0].request.cpu"),
    "negative count": ((*SOLO, "count"), -1, "gangs[0].pods[0].count"),
    "enormous count": ((*SOLO, "count"), 10**30, "gangs[0].pods[0].count"),
    "negative min": ((*SOLO, "min"), -1, "gangs[0].pods[0].min"),
    "enormous priority": (("gangs", 0, "priority"), -(10**30), "gangs[0].priority"),
    "port zero": ((*NODE, "hostPorts"), [0], "nodes[0].hostPorts[0]"),
    "port too high": ((*SOLO, "hostPorts"), [65536], "gangs[0].pods[0].hostPorts[0]"),
    # filters
    "taint effect": ((*NODE, "taints"), [{"key": "k", "effect": "Never"}], "nodes[0].taints[0].effect"),
    "taint without effect": ((*NODE, "taints"), [{"key": "k"}], "nodes[0].taints[0].effect"),
    "toleration operator": (
        (*SOLO, "tolerations"),
        [{"key": "k", "operator": "In"}],
        "gangs[0].pods[0].tolerations[0].operator",
    ),
    "toleration effect": (
        (*SOLO, "tolerations"),
        [{"key": "k", "effect": "x"}],
        "gangs[0].pods[0].tolerations[0].effect",
    ),
    "toleration of no key": ((*SOLO, "tolerations"), [{"value": "x"}], "gangs[0].pods[0].tolerations[0].operator"),
    "Exists with a value": (
        (*SOLO, "tolerations"),
        [{"operator": "Exists", "value": "x"}],
        "gangs[0].pods[0].tolerations[0].value",
    ),
    "term operator": ((*SOLO, "affinity"), _term(operator="Is", values=["x"]), f"{HARD}.operator"),
    "In without values": ((*SOLO, "affinity"), _term(operator="In"), f"{HARD}.values"),
    "Exists with values": ((*SOLO, "affinity"), _term(operator="Exists", values=["x"]), f"{HARD}.values"),
    "Gt of two": ((*SOLO, "affinity"), _term(operator="Gt", values=["1", "2"]), f"{HARD}.values"),
    "Lt of a word": ((*SOLO, "affinity"), _term(operator="Lt", values=["one"]), f"{HARD}.values"),
    "values as numbers": ((*SOLO, "affinity"), _term(operator="Gt", values=[1]), f"{HARD}.values[0]"),
    "other fields": (
        (*SOLO, "affinity"),
        _field(key="spec.x", operator="In", values=["n"]),
        f"{WISH}.preference.matchFields[0].key",
    ),
    "field operator": (
        (*SOLO, "affinity"),
        _field(key="metadata.name", operator="Gt", values=["1"]),
        f"{WISH}.preference.matchFields[0].operator",
    ),
    "two names": (
        (*SOLO, "affinity"),
        _field(key="metadata.name", operator="In", values=["a", "b"]),
        f"{WISH}.preference.matchFields[0].values",
    ),
    "weight": ((*SOLO, "affinity"), {"nodeAffinity": {SOFT: [{"weight": 101, "preference": {}}]}}, f"{WISH}.weight"),
    # options
    "strategy": (("options",), {"strategy": "random"}, "options.strategy"),
    "extras": (("options",), {"extras": True}, "options.extras"),
    "extras by another name": (("options",), {"extras": "all"}, "options.extras"),
    "negative budget": (("options",), {"budget": -1}, "options.budget"),
    "budget over int64": (("options",), {"budget": 2**63}, "options.budget"),
    "consolidate as boolean": (("options",), {"consolidate": True}, "options.consolidate"),
    "negative moves": (("options",), {"consolidate": {"maxMoves": -1}}, "options.consolidate.maxMoves"),
    "negative loss": (("options",), {"consolidate": {"maxLoss": -0.1}}, "options.consolidate.maxLoss"),
    "loss that is no number": (("options",), {"consolidate": {"maxLoss": float("nan")}}, "options.consolidate.maxLoss"),
    "loss beyond floats": (("options",), {"consolidate": {"maxLoss": 10**400}}, "options.consolidate.maxLoss"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_refusal_names_the_field(name: str) -> None:
    path, value, field = UNREADABLE[name]
    error = refusal(changed(path, value))
    assert error.field == field
    assert str(error).startswith(f"{field}: " if field else "found ")
    assert len(str(error)) < 400
    assert "\n" not in str(error)


@pytest.mark.parametrize("field", ["version", "resources", "nodes", "gangs"])
def test_a_field_that_has_to_be_there_is_named(field: str) -> None:
    assert refusal(without(field)).field == field
    assert refusal(changed((field,), None)).field == field
    path = ("gangs", 0, "groups", 0, "groups", 0, "name")
    assert refusal(without(*path)).field == "gangs[0].groups[0].groups[0].name"


@pytest.mark.parametrize("document", [None, [], "version: 1", 1, [BASE]], ids=str)
def test_what_is_no_object_is_refused(document: Any) -> None:
    assert str(refusal(document)).endswith("allowed: an object with version, resources, nodes and gangs")


def test_another_version_is_not_searched_for_unknown_fields() -> None:
    assert str(refusal({"version": 2, "new": 1})) == "version: found 2, allowed: 1"


def test_a_refusal_says_what_was_found_and_what_is_allowed() -> None:
    assert str(refusal(changed((*SOLO, "request"), {"cpu": "x"}))) == (
        "gangs[0].pods[0].request.cpu: found 'x', allowed: a quantity such as 8, 500m or 32Gi"
    )
    assert str(refusal(changed((*NODE, "labels", "zone"), True))) == (
        "nodes[0].labels.zone: found true, allowed: a text (in quotes)"
    )
    assert str(refusal(changed(("nodes", 1, "name"), "n0"))) == (
        "nodes[1].name: found 'n0' again, allowed: a name of its own; nodes[0] has this one"
    )


def _nested(depth: int) -> Document:
    group: Document = {"name": "leaf", "pods": [{"name": "p"}]}
    for _ in range(depth - 1):
        group = {"name": "g", "groups": [group]}
    return changed(("gangs", 1, "groups"), [group])


def test_groups_nest_a_hundred_levels() -> None:
    assert read_problem(_nested(100)).gangs[1].root.groups[0].name == "g"


@pytest.mark.parametrize("depth", [101, 400, 5000])
def test_deeper_groups_are_refused_with_the_gang_named(depth: int) -> None:
    assert refusal(_nested(depth)).field == "gangs[1]"


def test_a_group_inside_itself_is_refused() -> None:
    group: Document = {"name": "g"}
    group["groups"] = [group]
    assert refusal(changed(("gangs", 0, "groups"), [group])).field == "gangs[0]"


def test_equal_amounts_and_label_texts_are_shared() -> None:
    document = copy.deepcopy(BASE)
    document["nodes"] = [
        {"name": f"n{index}", "labels": {"rack": "".join(["r", "0"])}, "allocatable": {"cpu": "".join(["1", "6"])}}
        for index in range(2)
    ]
    one, two = read_problem(document).nodes
    assert one.allocatable is two.allocatable
    assert one.labels["rack"] is two.labels["rack"]
