"""ClusterTopologies: T3, T4, L4, C9."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from unit.admission.admission_kit import (
    KEYS,
    ON,
    OPERATOR,
    Json,
    View,
    errors,
    pack,
    pcs,
    podclique,
    stored,
    topology,
    view,
    warnings,
)

OWN = replace(ON, operator_users=frozenset({OPERATOR}))


def domains(obj: Json) -> list[str]:
    return [level["domain"] for level in obj["spec"]["levels"]]


def test_t4_levels_are_stored_broad_to_narrow() -> None:
    assert domains(stored(topology("host", "rack", "region"))) == ["region", "rack", "host"]


@pytest.mark.parametrize("given", list(permutations(("zone", "block", "host", "numa"))))
def test_t3_t4_any_subset_in_any_order_is_admitted(given: tuple[str, ...]) -> None:
    made = stored(topology(*given, name="x"))
    assert domains(made) == ["zone", "block", "host", "numa"]
    assert [level["key"] for level in made["spec"]["levels"]] == [KEYS[domain] for domain in domains(made)]
    assert errors(topology(*given, name="x")) == []


def test_t4_a_change_of_levels_is_put_into_order_as_well() -> None:
    old = stored(topology("zone", "host", name="x"))
    assert domains(stored(topology("host", "rack", "zone", name="x"), old=old)) == ["zone", "rack", "host"]


def test_t4_levels_in_order_are_left_alone() -> None:
    given = topology("zone", "host")
    assert stored(given) is given


def test_t2_a_domain_or_key_twice_is_refused_even_without_a_schema() -> None:
    twice = topology("zone", "rack", name="x")
    twice["spec"]["levels"].append({"domain": "rack", "key": KEYS["zone"]})
    assert errors(twice) == [
        'spec.levels[2].domain: Duplicate value: "rack"',
        f'spec.levels[2].key: Duplicate value: "{KEYS["zone"]}"',
    ]


def used(name: str = "h100", *, explicit: bool = True, scheduled: int = 1) -> View:
    given: dict[str, Any] = {"clusterTopologyName": name} if explicit else {}
    workload = stored(pcs(constraint=pack("rack"), **given))
    lookup = view(topology("zone", "rack", name=name))
    return lookup.add("podcliquesets", workload).add("podcliques", podclique("p", scheduled))


OLD = topology("zone", "rack", name="h100")
NEW = topology("zone", "block", "rack", name="h100")
REFUSAL = (
    "spec.levels: Forbidden: topology levels cannot be changed while PodCliqueSets with scheduled pods reference "
    'ClusterTopology "{name}": {blockers}'
)


def test_l4_levels_cannot_change_under_scheduled_pods() -> None:
    lookup = used().add("podcliquesets", stored(pcs(constraint=pack("rack"), clusterTopologyName="h100", name="a")))
    lookup.add("podcliques", podclique("a", 3))
    assert errors(NEW, OLD, lookup=lookup) == [REFUSAL.format(name="h100", blockers="ns/a, ns/p")]


def test_l4_a_changed_key_is_a_change_of_levels() -> None:
    other = copy.deepcopy(OLD)
    other["spec"]["levels"][0]["key"] = "example.com/zone"
    assert errors(other, OLD, lookup=used()) == [REFUSAL.format(name="h100", blockers="ns/p")]


def test_l4_the_default_is_used_by_omission() -> None:
    lookup = used("grove-topology", explicit=False)
    old, new = topology("zone", "rack"), topology("zone", "block", "rack")
    assert errors(new, old, lookup=lookup) == [REFUSAL.format(name="grove-topology", blockers="ns/p")]


def test_l4_levels_may_change_while_all_users_are_unscheduled() -> None:
    assert errors(NEW, OLD, lookup=used(scheduled=0)) == []


def test_l4_users_of_other_topologies_and_unconstrained_sets_do_not_block() -> None:
    lookup = used("gb200").add("podcliquesets", stored(pcs(name="free"))).add("podcliques", podclique("free", 1))
    assert errors(NEW, OLD, lookup=lookup) == []
    assert errors(topology("zone", "block"), topology("zone", "rack"), lookup=lookup) == []


def test_l4_metadata_always_passes() -> None:
    labelled = copy.deepcopy(OLD)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert errors(labelled, OLD, lookup=used()) == []


def test_l4_another_order_of_the_same_levels_is_no_change() -> None:
    assert errors(topology("rack", "zone", name="h100"), OLD, lookup=used()) == []


def test_l4_the_start_up_write_of_the_operator_is_exempt() -> None:
    lookup = used("grove-topology", explicit=False)
    old, new = topology("zone", "rack"), topology("zone", "block", "rack")
    assert errors(new, old, lookup=lookup, settings=OWN, user=OPERATOR) == []
    assert errors(new, old, lookup=lookup, settings=OWN, user="alice") != []
    assert errors(NEW, OLD, lookup=used(), settings=OWN, user=OPERATOR) != []


def test_l4_many_blockers_are_counted() -> None:
    lookup = view(OLD)
    for index in range(60):
        name = f"s{index:02}"
        lookup.add("podcliquesets", stored(pcs(constraint=pack("rack"), clusterTopologyName="h100", name=name)))
        lookup.add("podcliques", podclique(name, 1))
    (error,) = errors(NEW, OLD, lookup=lookup)
    assert error.endswith("ns/s48, ns/s49 and 10 more")


def test_c9_the_reserved_name_by_hand_is_warned_of() -> None:
    (warning,) = warnings(topology("zone"))
    assert 'the name "grove-topology" is reserved' in warning
    assert warnings(topology("zone", name="mine")) == []


def test_c9_the_operator_is_not_warned_of_its_own_name() -> None:
    assert warnings(topology("zone"), settings=OWN, user=OPERATOR) == []


def test_c6_c9_a_default_that_admins_make_is_not_warned_of() -> None:
    assert warnings(topology("zone"), settings=replace(ON, writes_default=False)) == []


def test_a_host_level_with_another_key_is_warned_of() -> None:
    odd = topology("host", name="x")
    odd["spec"]["levels"][0]["key"] = "example.com/host"
    assert warnings(odd) == [
        'spec.levels[0].key: kubelets label hosts with "kubernetes.io/hostname", found "example.com/host"'
    ]


def test_inv8_what_is_being_deleted_may_lose_its_finalizers() -> None:
    old = {"metadata": {"name": "x", "deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["a"]}, "spec": 5}
    new = {"metadata": {"name": "x", "deletionTimestamp": "2030-01-01T00:00:00Z"}, "spec": 5, "kind": "ClusterTopology"}
    assert errors(new, old) == []


def test_l4_levels_that_were_stored_out_of_order_may_be_put_right() -> None:
    unordered = topology("rack", "zone", name="h100")
    labelled = copy.deepcopy(unordered)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert errors(labelled, unordered, lookup=used()) == []
    assert domains(stored(labelled, lookup=used(), old=unordered)) == ["zone", "rack"]
