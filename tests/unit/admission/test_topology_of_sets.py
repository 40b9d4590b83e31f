"""The topology of PodCliqueSets: P1 to P10 and G8, T5, as admission decides them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.topology_constraints import effective_topology, possible_topologies
from unit.admission.admission_kit import (
    OFF,
    ON,
    Json,
    View,
    changed,
    clique,
    errors,
    group,
    pack,
    pcs,
    podclique,
    stored,
    topology,
    view,
    warnings,
)

LABEL = "grove.io/topology-name"
TEMPLATE = "spec.template"


def label(obj: Json) -> str | None:
    return obj["metadata"].get("labels", {}).get(LABEL)


def test_p1_constraints_at_all_three_levels_are_admitted() -> None:
    leader, worker = clique("leader", pack("host")), clique("worker")
    groups = (group("prefill", "leader", "worker", constraint=pack("block")),)
    assert errors(pcs(leader, worker, clique("router", pack("rack")), constraint=pack("zone"), groups=groups)) == []


def test_p2_an_unknown_domain_is_refused_where_it_stands() -> None:
    workload = pcs(
        clique("a", pack("rack")),
        clique("b", {"pack": {"required": "rack", "preferred": "numa"}}),
        constraint=pack("block"),
        groups=(group("g", "a", constraint=pack("rack")),),
    )
    lookup = view(topology("zone", "host"))
    text = "does not exist in cluster topology [zone host]"
    assert errors(workload, lookup=lookup) == [
        f"{TEMPLATE}.topologyConstraint.packDomain: Invalid value: \"block\": topology domain 'block' {text}",
        f"{TEMPLATE}.podCliqueScalingGroups[0].topologyConstraint.packDomain: "
        f"Invalid value: \"rack\": topology domain 'rack' {text}",
        f"{TEMPLATE}.cliques[0].topologyConstraint.packDomain: Invalid value: \"rack\": topology domain 'rack' {text}",
        f"{TEMPLATE}.cliques[1].topologyConstraint.pack.required: "
        f"Invalid value: \"rack\": topology domain 'rack' {text}",
        f"{TEMPLATE}.cliques[1].topologyConstraint.pack.preferred: "
        f"Invalid value: \"numa\": topology domain 'numa' {text}",
    ]


def test_p2_a_level_that_vanished_later_does_not_hinder_updates() -> None:
    old = stored(pcs(constraint=pack("rack")))
    new = changed(old, priorityClassName="high")
    assert errors(new, old, lookup=view(topology("zone", "host"))) == []


HIERARCHY = {
    "rack above host": ("rack", "host", True),
    "rack above rack": ("rack", "rack", True),
    "rack above numa": ("rack", "numa", True),
    "host above rack": ("host", "rack", False),
    "zone above block": ("zone", "block", True),
}


@pytest.mark.parametrize("row", HIERARCHY)
@pytest.mark.parametrize("shape", ["set and clique", "set and group", "group and clique", "set and member"])
def test_p3_a_child_is_not_broader_than_its_parent(row: str, shape: str) -> None:
    above, below, allowed = HIERARCHY[row]
    parent, child = pack(above), pack(below)
    workload, where, text = {
        "set and clique": (
            pcs(clique("w", child), constraint=parent),
            f"{TEMPLATE}.topologyConstraint",
            "PodCliqueSet topology constraint domain 'host' is narrower than PodClique 'w'",
        ),
        "set and group": (
            pcs(clique("w"), constraint=parent, groups=(group("g", "w", constraint=child),)),
            f"{TEMPLATE}.topologyConstraint",
            "PodCliqueSet topology constraint domain 'host' is narrower than PodCliqueScalingGroup 'g'",
        ),
        "group and clique": (
            pcs(clique("w", child), groups=(group("g", "w", constraint=parent),)),
            f"{TEMPLATE}.podCliqueScalingGroups[0].topologyConstraint",
            "PodCliqueScalingGroup 'g' topology constraint domain 'host' is narrower than PodClique 'w'",
        ),
        "set and member": (
            pcs(clique("w", child), constraint=parent, groups=(group("g", "w"),)),
            f"{TEMPLATE}.topologyConstraint",
            "PodCliqueSet topology constraint domain 'host' is narrower than PodClique 'w'",
        ),
    }[shape]
    expected = [f"{where}: Invalid value: \"host\": {text} topology constraint domain 'rack'"]
    assert errors(workload) == ([] if allowed else expected)


def test_p3_preferred_is_compared_with_preferred() -> None:
    child = {"pack": {"preferred": "rack"}}
    assert errors(pcs(clique("w", child), constraint={"pack": {"preferred": "host"}})) == [
        f'{TEMPLATE}.topologyConstraint.pack.preferred: Invalid value: "host": PodCliqueSet topology constraint domain '
        "'host' is narrower than PodClique 'w' topology constraint domain 'rack'"
    ]
    assert errors(pcs(clique("w", child), constraint=pack("host"))) == []


CHANGES: dict[str, tuple[Json | None, Json | None, str]] = {
    "added": (None, pack("rack"), "cannot be added after creation"),
    "removed": (pack("rack"), None, "cannot be removed after creation"),
    "changed": (
        pack("rack"),
        pack("host"),
        'cannot be changed from required="rack" preferred="" to required="host" preferred=""',
    ),
    "softened": (
        pack("rack"),
        {"pack": {"preferred": "rack"}},
        'cannot be changed from required="rack" preferred="" to required="" preferred="rack"',
    ),
}


@pytest.mark.parametrize("row", CHANGES)
@pytest.mark.parametrize("level", ["set", "group", "clique"])
def test_p4_constraints_cannot_change(row: str, level: str) -> None:
    before, after, text = CHANGES[row]

    def made(constraint: Json | None) -> Json:
        return pcs(
            clique("w", constraint if level == "clique" else None),
            clique("x", pack("host")),
            constraint=constraint if level == "set" else None,
            groups=(group("g", "w", constraint=constraint if level == "group" else None),),
        )

    path, title = {
        "set": (TEMPLATE, "PodCliqueSet"),
        "group": (f"{TEMPLATE}.podCliqueScalingGroups[0]", "PodCliqueScalingGroup 'g'"),
        "clique": (f"{TEMPLATE}.cliques[0]", "PodClique 'w'"),
    }[level]
    assert errors(made(after), stored(made(before))) == [
        f"{path}.topologyConstraint: Forbidden: {title} topology constraint {text}"
    ]


def test_p4_another_spelling_of_the_same_constraint_is_no_change() -> None:
    old = stored(pcs(constraint=pack("rack")))
    assert errors(changed(old, topologyConstraint={"pack": {"required": "rack"}}), old) == []


def two_topologies() -> View:
    return view(topology("zone", "rack", "host", name="h100"), topology("zone", "block", "rack", "host", name="gb200"))


def test_t5_p5_an_explicit_topology_must_exist() -> None:
    assert errors(pcs(constraint=pack("rack"), clusterTopologyName="h100"), lookup=two_topologies()) == []
    assert errors(pcs(constraint=pack("rack"), clusterTopologyName="x"), lookup=two_topologies()) == [
        f'{TEMPLATE}.clusterTopologyName: Invalid value: "x": ClusterTopology "x" not found'
    ]


def test_g8_without_a_name_the_default_topology_is_meant() -> None:
    assert errors(pcs(constraint=pack("rack")), lookup=two_topologies()) == [
        f'{TEMPLATE}.clusterTopologyName: Invalid value: "grove-topology": ClusterTopology "grove-topology" not found: '
        "it is the default, and the set names no other"
    ]
    by_name = AdmissionSettings(default_topology="gb200", writes_default=False)
    assert errors(pcs(constraint=pack("block")), lookup=two_topologies(), settings=by_name) == []


def test_g8_without_a_constraint_no_topology_is_needed() -> None:
    assert errors(pcs(), lookup=View()) == []


def test_a_topology_that_is_being_deleted_is_warned_of() -> None:
    leaving = topology("rack")
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert warnings(pcs(constraint=pack("rack")), lookup=view(leaving)) == [
        'ClusterTopology "grove-topology" is being deleted, and stays only as long as sets use it'
    ]


def pending() -> tuple[Json, View]:
    lookup = two_topologies().add("podcliques", podclique("p", 0))
    old = stored(pcs(constraint=pack("rack"), clusterTopologyName="h100"), lookup=lookup)
    return old, lookup


def test_p5_the_reference_may_change_while_nothing_is_scheduled() -> None:
    old, lookup = pending()
    new = changed(old, clusterTopologyName="gb200")
    assert errors(new, old, lookup=lookup) == []
    assert label(stored(new, ON, lookup, old)) == "gb200"


def test_p10_a_running_set_may_name_the_topology_that_it_uses_already() -> None:
    lookup = view(topology("rack"), topology("rack", name="h100")).add("podcliques", podclique("p", 1))
    old = stored(pcs(constraint=pack("rack")), lookup=lookup)
    named = {**pack("rack"), "topologyName": "grove-topology"}
    assert errors(changed(old, topologyConstraint=named), old, lookup=lookup) == []
    assert errors(changed(old, topologyConstraint={**named, "topologyName": "h100"}), old, lookup=lookup) == [
        f'{TEMPLATE}.topologyConstraint.topologyName: Forbidden: topologyName cannot be changed from "" to "h100" '
        "once pods are scheduled"
    ]
    assert errors(changed(old, clusterTopologyName="grove-topology"), old, lookup=lookup) == [
        f'{TEMPLATE}.clusterTopologyName: Forbidden: clusterTopologyName cannot be changed from "" to "grove-topology" '
        "once pods are scheduled"
    ]


def test_p5_a_new_reference_is_checked_anew() -> None:
    old, lookup = pending()
    lookup.add("clustertopologies", topology("zone", "host", name="small"))
    assert errors(changed(old, clusterTopologyName="x"), old, lookup=lookup) == [
        f'{TEMPLATE}.clusterTopologyName: Invalid value: "x": ClusterTopology "x" not found'
    ]
    assert errors(changed(old, clusterTopologyName="small"), old, lookup=lookup) == [
        f"{TEMPLATE}.topologyConstraint.packDomain: "
        "Invalid value: \"rack\": topology domain 'rack' does not exist in cluster topology [zone host]"
    ]


FORBIDDEN = f'{TEMPLATE}.clusterTopologyName: Forbidden: clusterTopologyName cannot be changed from "h100" to "gb200"'


def test_p5_the_reference_is_fixed_once_a_podclique_counts_a_scheduled_pod() -> None:
    old, lookup = pending()
    lookup.add("podcliques", podclique("p", 1, name="p-0-x"))
    assert errors(changed(old, clusterTopologyName="gb200"), old, lookup=lookup) == [
        f"{FORBIDDEN} once pods are scheduled"
    ]


def test_p5_the_reference_is_fixed_once_a_pod_is_bound_even_if_no_status_says_so() -> None:
    old, lookup = pending()
    pod = podclique("p", 0) | {"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}}
    lookup.add("pods", pod, group="")
    assert errors(changed(old, clusterTopologyName="gb200"), old, lookup=lookup) == [
        f"{FORBIDDEN} once pods are scheduled"
    ]


def test_p5_pods_of_other_sets_and_namespaces_do_not_count() -> None:
    old, lookup = pending()
    lookup.add("podcliques", podclique("q", 1)).add("podcliques", podclique("p", 1, namespace="other"))
    assert errors(changed(old, clusterTopologyName="gb200"), old, lookup=lookup) == []


def test_p5_the_name_cannot_be_taken_away_from_scheduled_pods_either() -> None:
    old, lookup = pending()
    lookup.add("clustertopologies", topology("rack")).add("podcliques", podclique("p", 1, name="p-0-x"))
    (error,) = errors(changed(old, clusterTopologyName=None), old, lookup=lookup)
    assert error.endswith('clusterTopologyName cannot be changed from "h100" to "" once pods are scheduled')


def test_p6_a_name_without_any_constraint_is_refused() -> None:
    assert errors(pcs(clusterTopologyName="h100"), lookup=two_topologies()) == [
        f'{TEMPLATE}.clusterTopologyName: Invalid value: "h100": clusterTopologyName is set but no topologyConstraint '
        "is specified on the PodCliqueSet, any PodCliqueScalingGroup or any PodClique"
    ]


@pytest.mark.parametrize("level", ["set", "group", "clique"])
def test_p6_any_constraint_is_refused_with_topology_off(level: str) -> None:
    one = pack("rack")
    workload = pcs(
        clique("w", one if level == "clique" else None),
        constraint=one if level == "set" else None,
        groups=(group("g", "w", constraint=one if level == "group" else None),),
    )
    (error,) = errors(workload, settings=OFF)
    assert "topology support is not enabled in the operator" in error
    assert "topology constraints are not allowed when Topology Aware Scheduling is disabled" in error


def test_p6_a_name_is_refused_with_topology_off_and_everything_is_told() -> None:
    workload = pcs(clique("w", pack("host")), constraint=pack("rack"), clusterTopologyName="h100")
    found = errors(workload, settings=OFF, lookup=two_topologies())
    assert [error.partition(":")[0] for error in found] == [
        f"{TEMPLATE}.clusterTopologyName",
        f"{TEMPLATE}.topologyConstraint",
        f"{TEMPLATE}.cliques[0].topologyConstraint",
    ]
    assert all("topology support is not enabled in the operator" in error for error in found)


def test_p7_with_topology_off_other_updates_pass() -> None:
    old = stored(pcs(constraint=pack("rack"), clusterTopologyName="h100"), lookup=two_topologies())
    assert errors(changed(old, priorityClassName="high"), old, settings=OFF, lookup=View()) == []
    renamed = changed(old, clusterTopologyName="gb200")
    assert any("not enabled in the operator" in error for error in errors(renamed, old, settings=OFF))


def test_p8_a_constrained_set_is_labelled_with_its_effective_topology() -> None:
    assert label(stored(pcs(constraint=pack("rack")))) == "grove-topology"
    assert label(stored(pcs(constraint=pack("rack"), clusterTopologyName="h100"))) == "h100"
    assert label(stored(pcs(clique("w", {"topologyName": "gb200", "pack": {"required": "rack"}})))) == "gb200"


def test_p8_an_unconstrained_set_has_no_label_whatever_the_user_wrote() -> None:
    assert label(stored(pcs(labels={LABEL: "mine", "a": "b"}))) is None
    assert stored(pcs(labels={LABEL: "mine", "a": "b"}))["metadata"]["labels"] == {"a": "b"}
    assert "labels" not in stored(pcs(labels={LABEL: "mine"}))["metadata"]


@pytest.mark.parametrize("attempt", ["mine", "", None])
def test_p8_a_users_attempt_to_set_change_or_remove_the_label_has_no_effect(attempt: str | None) -> None:
    given = {LABEL: attempt} if attempt is not None else {}
    assert label(stored(pcs(constraint=pack("rack"), labels=given))) == "grove-topology"
    old = stored(pcs(constraint=pack("rack"), clusterTopologyName="h100"))
    new = copy.deepcopy(old) | {"metadata": {**old["metadata"], "labels": given}}
    assert label(stored(new, old=old)) == "h100"
    assert errors(new, old) == []


def test_p8_with_topology_off_no_label_is_added_and_none_is_lost() -> None:
    assert label(stored(pcs(constraint=pack("rack"), labels={LABEL: "mine"}), OFF)) is None
    old = stored(pcs(constraint=pack("rack")))
    assert label(stored(pcs(constraint=pack("rack")), OFF, old=old)) == "grove-topology"


NEW_DEFAULT = replace(ON, default_topology="gb200", writes_default=False)


def test_p8_a_set_without_a_name_keeps_its_topology_while_a_pod_is_scheduled() -> None:
    old = stored(pcs(constraint=pack("rack")))
    lookup = view().add("podcliques", podclique("p", 1))
    assert label(stored(pcs(constraint=pack("rack")), NEW_DEFAULT, lookup, old)) == "grove-topology"


def test_p8_a_new_default_applies_to_a_set_without_a_name_and_without_scheduled_pods() -> None:
    old = stored(pcs(constraint=pack("rack")))
    assert label(stored(pcs(constraint=pack("rack")), NEW_DEFAULT, view(), old)) == "gb200"


@pytest.mark.parametrize("field", ["replicaSpreadConstraints", "schedulingPolicyConfig"])
def test_p9_removed_fields_are_refused_with_a_reason(field: str) -> None:
    workload = pcs()
    home = workload["spec"] if field == "replicaSpreadConstraints" else workload["spec"]["template"]
    home[field] = []
    (error,) = errors(workload)
    assert f"{field}: Forbidden: {field} has been removed" in error


def test_p10_both_spellings_mean_the_same() -> None:
    newer = {"topologyName": "h100", "pack": {"required": "rack", "preferred": "host"}}
    assert errors(pcs(constraint=newer), lookup=two_topologies()) == []
    assert errors(pcs(constraint=newer, clusterTopologyName="h100"), lookup=two_topologies()) == []


def test_p10_a_topology_name_that_differs_from_cluster_topology_name_is_refused() -> None:
    newer = {"topologyName": "gb200", "pack": {"required": "rack"}}
    assert errors(pcs(constraint=newer, clusterTopologyName="h100"), lookup=two_topologies()) == [
        f'{TEMPLATE}.topologyConstraint.topologyName: Invalid value: "gb200": '
        'topologyName must equal clusterTopologyName "h100"'
    ]


def test_p10_different_topology_names_are_refused_on_each_of_them() -> None:
    first, second = ({"topologyName": name, "pack": {"required": "rack"}} for name in ("h100", "gb200"))
    text = "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
    assert errors(pcs(clique("w", second), constraint=first), lookup=two_topologies()) == [
        f'{TEMPLATE}.topologyConstraint.topologyName: Invalid value: "h100": {text}',
        f'{TEMPLATE}.cliques[0].topologyConstraint.topologyName: Invalid value: "gb200": {text}',
    ]


def test_p10_a_differing_name_cannot_come_by_an_update() -> None:
    old, lookup = pending()
    new = changed(old, topologyConstraint={"packDomain": "rack", "topologyName": "gb200"})
    assert any("must equal clusterTopologyName" in error for error in errors(new, old, lookup=lookup))


def test_p10_a_reference_may_move_to_the_other_spelling() -> None:
    old, lookup = pending()
    lookup.add("podcliques", podclique("p", 1))
    moved = {"packDomain": "rack", "topologyName": "h100"}
    assert errors(changed(old, clusterTopologyName=None, topologyConstraint=moved), old, lookup=lookup) == []


def test_p10_a_preferred_domain_that_is_coarser_than_the_required_one_is_warned_of() -> None:
    path = f"{TEMPLATE}.topologyConstraint.pack"
    assert warnings(pcs(constraint={"pack": {"required": "rack", "preferred": "zone"}})) == [
        f"{path}.preferred is coarser than {path}.required and is redundant"
    ]
    assert warnings(pcs(constraint={"pack": {"required": "rack", "preferred": "host"}})) == []


def test_s2_nobody_fills_the_name_in() -> None:
    assert "clusterTopologyName" not in stored(pcs(constraint=pack("rack")))["spec"]["template"]


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("kept", ["grove-topology", "h100"])
@pytest.mark.parametrize("named", ["", "h100"])
def test_p8_g8_webhook_and_operator_follow_one_rule(named: str, kept: str, scheduled: bool) -> None:
    template: dict[str, Any] = {"clusterTopologyName": named} if named else {}
    workload = pcs(constraint=pack("rack"), labels={LABEL: kept}, **template)
    lookup = view().add("podcliques", podclique("p", int(scheduled)))
    counts = effective_topology(msgspec.convert(workload, PodCliqueSet, strict=False), "gb200", scheduled)
    assert label(stored(workload, NEW_DEFAULT, lookup, old=workload)) == counts
    index = possible_topologies(msgspec.convert(workload, PodCliqueSet, strict=False), "gb200")
    assert counts in index
    assert len(index) == (1 if named else 2)
