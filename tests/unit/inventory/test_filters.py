"""Node filters, rule by rule, as kube-scheduler applies them."""

from __future__ import annotations

import pytest

from spinney.api.placement.problem import ANY_NODE, NodeFilter, NodeTerm, PreferredTerm, Taint, Term, Toleration
from spinney.core.inventory.filters import admits, preference, why_not
from spinney.core.inventory.inventory import Inventory
from unit.inventory.inventory_kit import RESOURCES, node

LABELLED = node("n1", {"zone": "a", "size": "5", "word": "five", "empty": ""})
GPU = Taint("gpu", "yes", "NoSchedule")
DRAIN = Taint("drain", "", "NoExecute")
SOFT = Taint("soft", "x", "PreferNoSchedule")
CORDON_KEY = "node.kubernetes.io/unschedulable"


def requires(*terms: NodeTerm) -> NodeFilter:
    return NodeFilter(required=terms)


def label(key: str, operator: str, *values: str) -> NodeTerm:
    return NodeTerm(expressions=(Term(key, operator, values),))


def name(operator: str, *values: str) -> NodeTerm:
    return NodeTerm(fields=(Term("metadata.name", operator, values),))


def tolerates(key: str = "", operator: str = "Equal", value: str = "", effect: str = "") -> NodeFilter:
    return NodeFilter(tolerations=(Toleration(key, operator, value, effect),))


AFFINITY = {
    "in": (label("zone", "In", "b", "a"), True),
    "in: another value": (label("zone", "In", "b"), False),
    "in: no such label": (label("rack", "In", "a"), False),
    "in: an empty value": (label("empty", "In", ""), True),
    "in: a missing label is not an empty one": (label("rack", "In", ""), False),
    "in: no values": (label("zone", "In"), False),
    "not in": (label("zone", "NotIn", "b"), True),
    "not in: the value": (label("zone", "NotIn", "a"), False),
    "not in: no such label": (label("rack", "NotIn", "a"), True),
    "not in: no values": (label("zone", "NotIn"), False),
    "exists": (label("empty", "Exists"), True),
    "exists: no such label": (label("rack", "Exists"), False),
    "exists: with values": (label("zone", "Exists", "a"), False),
    "does not exist": (label("rack", "DoesNotExist"), True),
    "does not exist: it does": (label("zone", "DoesNotExist"), False),
    "greater": (label("size", "Gt", "4"), True),
    "greater: equal": (label("size", "Gt", "5"), False),
    "greater: by number, not by text": (label("size", "Lt", "10"), True),
    "greater: a negative bound": (label("size", "Gt", "-1"), True),
    "greater: not a number": (label("word", "Gt", "4"), False),
    "greater: no such label": (label("rack", "Gt", "4"), False),
    "greater: two bounds": (label("size", "Gt", "1", "2"), False),
    "greater: a bound of 5,000 digits": (label("size", "Gt", "9" * 5000), False),
    "less: a bound of 5,000 digits": (label("size", "Lt", "9" * 5000), False),
    "greater: a bound that begins with zeros": (label("size", "Gt", "0" * 5000 + "4"), True),
    "greater: the bound is no number": (label("size", "Gt", "one"), False),
    "greater: the bound is beyond 64 bits": (label("size", "Lt", str(2**63)), False),
    "less": (label("size", "Lt", "6"), True),
    "less: equal": (label("size", "Lt", "5"), False),
    "unknown operator": (label("zone", "Like", "a"), False),
    "name": (name("In", "n1"), True),
    "name: another": (name("In", "n2"), False),
    "name: not": (name("NotIn", "n2"), True),
    "name: not this": (name("NotIn", "n1"), False),
    "name: only one can be asked for": (name("In", "n1", "n2"), False),
    "name: other operators": (name("Exists"), False),
    "another field": (NodeTerm(fields=(Term("spec.podCIDR", "In", ("n1",)),)), False),
    "an empty term": (NodeTerm(), False),
    "all expressions": (NodeTerm(expressions=(Term("zone", "Exists"), Term("rack", "DoesNotExist"))), True),
    "not all expressions": (NodeTerm(expressions=(Term("zone", "Exists"), Term("rack", "Exists"))), False),
    "expression and field": (NodeTerm((Term("zone", "Exists"),), (Term("metadata.name", "In", ("n2",)),)), False),
}


@pytest.mark.parametrize(("term", "matches"), AFFINITY.values(), ids=AFFINITY.keys())
def test_k8_a_required_term_matches_as_in_kubernetes(term: NodeTerm, matches: bool) -> None:
    found = why_not(requires(term), LABELLED)
    assert found is None if matches else found is not None and found.startswith("node affinity")


@pytest.mark.parametrize("term", [term for term, _ in AFFINITY.values()], ids=AFFINITY.keys())
def test_k8_one_node_and_all_nodes_at_once_are_judged_alike(term: NodeTerm) -> None:
    inventory = Inventory.of(RESOURCES, (), [LABELLED, node("n2", {"rack": "a", "size": "x"}), node("n3")])
    inventory.remove_node("n3")
    flags = inventory.masks.of(requires(term)).array()
    assert flags.tolist() == [admits(requires(term), LABELLED), admits(requires(term), inventory.node(1)), False]


def test_k8_one_matching_term_is_enough() -> None:
    assert admits(requires(label("rack", "Exists"), label("zone", "Exists")), LABELLED)


def test_k8_a_required_affinity_without_terms_matches_nothing() -> None:
    assert why_not(NodeFilter(required=()), LABELLED) == "node affinity"


def test_k15_the_requirement_that_a_node_does_not_meet_is_named() -> None:
    one = NodeTerm(expressions=(Term("zone", "Exists"), Term("size", "In", ("1", "2", "3", "4"))))
    assert why_not(requires(one), LABELLED) == "node affinity size In (1, 2, 3, ...)"
    assert why_not(requires(label("rack", "Exists")), LABELLED) == "node affinity rack Exists"
    assert why_not(requires(name("In", "n2")), LABELLED) == "node affinity metadata.name In (n2)"
    several = requires(label("rack", "Exists"), label("size", "In", "6"))
    assert why_not(several, LABELLED) == "node affinity on rack, size"


def test_k8_a_node_selector_wants_every_pair() -> None:
    assert admits(NodeFilter(selector=(("size", "5"), ("zone", "a"))), LABELLED)
    assert why_not(NodeFilter(selector=(("size", "5"), ("zone", "b"))), LABELLED) == "node selector zone=b"
    assert why_not(NodeFilter(selector=(("rack", ""),)), LABELLED) == "node selector rack="


TOLERATIONS = {
    "equal": (tolerates("gpu", "Equal", "yes", "NoSchedule"), True),
    "equal: without an operator": (tolerates("gpu", "", "yes"), True),
    "equal: another value": (tolerates("gpu", "Equal", "no"), False),
    "equal: another key": (tolerates("tpu", "Equal", "yes"), False),
    "exists: any value": (tolerates("gpu", "Exists"), True),
    "exists: another key": (tolerates("tpu", "Exists"), False),
    "exists: no key, everything": (tolerates(operator="Exists"), True),
    "another effect": (tolerates("gpu", "Exists", effect="NoExecute"), False),
    "everything of another effect": (tolerates(operator="Exists", effect="NoExecute"), False),
    "unknown operator": (tolerates("gpu", "Like", "yes"), False),
    "none": (ANY_NODE, False),
}


@pytest.mark.parametrize(("wanted", "passes"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_k8_a_taint_is_tolerated_as_in_kubernetes(wanted: NodeFilter, passes: bool) -> None:
    reason = None if passes else "untolerated taint gpu=yes:NoSchedule"
    assert why_not(wanted, node("n", taints=(GPU,))) == reason


def test_k8_no_execute_excludes_too() -> None:
    assert why_not(ANY_NODE, node("n", taints=(SOFT, DRAIN))) == "untolerated taint drain=:NoExecute"


def test_k8_prefer_no_schedule_does_not_exclude() -> None:
    assert admits(ANY_NODE, node("n", taints=(SOFT,)))


def test_k8_every_taint_must_be_tolerated() -> None:
    assert not admits(tolerates("gpu", "Exists"), node("n", taints=(GPU, DRAIN)))


def test_k8_a_cordoned_node_is_not_capacity() -> None:
    assert why_not(ANY_NODE, node("n", unschedulable=True)) == "unschedulable"


def test_a_cordoned_node_is_no_capacity_whatever_is_tolerated() -> None:
    assert not admits(tolerates(CORDON_KEY, "Exists", effect="NoSchedule"), node("n", unschedulable=True))


def test_k8_a_node_that_is_not_ready_is_not_capacity_whatever_is_tolerated() -> None:
    assert why_not(tolerates(operator="Exists"), node("n", ready=False)) == "not ready"


def test_k8_preferred_weights_add_up_and_soft_taints_come_second() -> None:
    wanted = NodeFilter(
        preferred=(
            PreferredTerm(10, label("zone", "In", "a")),
            PreferredTerm(5, label("size", "Gt", "1")),
            PreferredTerm(100, label("zone", "In", "b")),
            PreferredTerm(100, NodeTerm()),
        )
    )
    assert preference(wanted, LABELLED) == (15, 0)
    assert preference(wanted, node("n", taints=(SOFT, GPU))) == (0, -1)
    assert preference(wanted, LABELLED) > preference(wanted, node("n")) > preference(wanted, node("n", taints=(SOFT,)))


def test_k8_a_tolerated_soft_taint_does_not_count() -> None:
    assert preference(tolerates("soft", "Exists"), node("n", taints=(SOFT,))) == (0, 0)
