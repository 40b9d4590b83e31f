"""ClusterTopologyBindings at admission: the rules of ClusterTopologies, and those of upstream for schedulers (T8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spinney.core.admission.operator_admission import OperatorAdmission
from unit.admission.admission_kit import ON, Json, View, errors, pack, pcs, podclique, stored, topology, view, warnings

PATH = "spec.schedulerTopologyBindings"


def binding(*domains: str, name: str = "grove-topology", schedulers: tuple[str, ...] = ()) -> Json:
    made = {**topology(*domains, name=name), "kind": "ClusterTopologyBinding"}
    bound = [{"schedulerName": each, "topologyReference": "x"} for each in schedulers]
    return {**made, "spec": made["spec"] | ({"schedulerTopologyBindings": bound} if bound else {})}


def only(*bindings: Json) -> View:
    found = View()
    for each in bindings:
        found.add("clustertopologybindings", each)
    return found


def test_t8_a_set_may_use_a_binding_alone() -> None:
    lookup = only(binding("zone", "rack", name="b"))
    assert errors(pcs(constraint=pack("rack"), clusterTopologyName="b"), lookup=lookup) == []
    (refusal,) = errors(pcs(constraint=pack("host"), clusterTopologyName="b"), lookup=lookup)
    assert refusal.endswith("topology domain 'host' does not exist in cluster topology [zone rack]")


def test_t8_of_both_kinds_of_one_name_the_levels_of_the_binding_count() -> None:
    lookup = view(topology("zone", "host", name="b")).add("clustertopologybindings", binding("zone", "rack", name="b"))
    assert errors(pcs(constraint=pack("rack"), clusterTopologyName="b"), lookup=lookup) == []
    assert errors(pcs(constraint=pack("host"), clusterTopologyName="b"), lookup=lookup) != []


@pytest.mark.parametrize("kind", ["binding", "topology"])
def test_t8_the_second_of_one_name_is_admitted_with_a_warning(kind: str) -> None:
    both = {"binding": binding("zone", name="b"), "topology": topology("zone", name="b")}
    made = both.pop(kind)
    (other,) = both.values()
    lookup = View().add("clustertopologybindings" if kind == "topology" else "clustertopologies", other)
    (warning,) = warnings(made, lookup=lookup)
    assert warning.startswith(f'there is a {other["kind"]} "b" too: the ClusterTopologyBinding counts')
    assert errors(made, lookup=lookup) == []
    assert warnings(made, lookup=View()) == []


def test_t8_t4_levels_of_a_binding_are_put_in_order() -> None:
    made = stored(binding("host", "rack", "zone"), lookup=View())
    assert [level["domain"] for level in made["spec"]["levels"]] == ["zone", "rack", "host"]


def test_t8_l4_levels_of_a_binding_cannot_change_under_scheduled_pods() -> None:
    user = pcs(constraint=pack("rack"), clusterTopologyName="b")
    old = binding("zone", "rack", name="b")
    lookup = only(old).add("podcliquesets", user).add("podcliques", podclique("p", 1))
    (refusal,) = errors(binding("zone", "rack", "host", name="b"), old, lookup=lookup)
    assert 'reference ClusterTopologyBinding "b": ns/p' in refusal
    changed = binding("zone", "rack", "host", name="b")
    assert errors(changed, old, lookup=lookup, settings=replace(ON, protects_topologies=False)) == [], "as upstream"
    beside = lookup.add("clustertopologies", topology("zone", name="b"))
    assert errors(topology("zone", "host", name="b"), topology("zone", name="b"), lookup=beside) == []


SCHEDULERS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "one that has topologies": (("kai-scheduler",), []),
    "one twice": (
        ("kai-scheduler", "kai-scheduler"),
        [f'{PATH}[1].schedulerName: Duplicate value: "kai-scheduler"'],
    ),
    "one that is not enabled": (
        ("volcano",),
        [f'{PATH}[0].schedulerName: Invalid value: "volcano": scheduler backend is not enabled in Grove'],
    ),
    "one without topologies": (
        ("default-scheduler",),
        [
            f'{PATH}[0].schedulerName: Invalid value: "default-scheduler": '
            "scheduler backend does not implement topology-aware scheduling"
        ],
    ),
}


@pytest.mark.parametrize("row", SCHEDULERS)
def test_t8_schedulers_of_a_binding_are_judged_as_upstream_does(row: str) -> None:
    schedulers, expected = SCHEDULERS[row]
    assert errors(binding("zone", schedulers=schedulers), lookup=View()) == expected


def test_t8_duplicate_levels_are_refused_as_upstream_does() -> None:
    found = errors(binding("zone", "zone"), lookup=View())
    assert 'spec.levels[1].domain: Duplicate value: "zone"' in found


def test_t8_bindings_are_judged_on_every_server() -> None:
    rules: Any = OperatorAdmission(ON)
    assert ("grove.io", "clustertopologybindings") in __import__(
        "spinney.core.admission.operator_admission", fromlist=["_CHECKS"]
    )._CHECKS
    assert rules is not None
