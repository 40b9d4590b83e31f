"""PodCliqueSets that are filled in, and PodCliqueSets that change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from spinney.core.admission.operator_admission import OperatorAdmission
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
    request,
    stored,
    view,
    warnings,
)

CLIQUE = "spec.template.cliques[0]"
GROUP = "spec.template.podCliqueScalingGroups[0]"


def first_clique(obj: Json) -> Json:
    return obj["spec"]["template"]["cliques"][0]["spec"]


def test_the_fields_of_a_set_are_filled_in() -> None:
    spec = stored(pcs())["spec"]
    assert spec["updateStrategy"] == {"type": "RollingRecreate"}
    template = {key: value for key, value in spec["template"].items() if key != "cliques"}
    assert template == {
        "terminationDelay": "4h0m0s",
        "headlessServiceConfig": {"publishNotReadyAddresses": True},
        "cliqueStartupType": "CliqueStartupTypeAnyOrder",
    }


def test_the_fields_of_a_pod_are_filled_in() -> None:
    pod = first_clique(stored(pcs()))["podSpec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Always", 30)


@pytest.mark.parametrize(("given", "expected"), [({}, (1, 1)), ({"replicas": 0}, (1, 1)), ({"replicas": 4}, (4, 4))])
def test_the_minimum_is_all_replicas(given: Json, expected: tuple[int, int]) -> None:
    workload = pcs()
    del first_clique(workload)["replicas"]
    first_clique(workload).update(given)
    spec = first_clique(stored(workload))
    assert (spec["replicas"], spec["minAvailable"]) == expected
    assert errors(workload) == []


def test_autoscaling_begins_at_the_replicas() -> None:
    scaled = {"maxReplicas": 9}
    workload = pcs(
        clique(replicas=3, autoScalingConfig=scaled),
        clique("x"),
        groups=(group("g", "x", replicas=2, scaleConfig=scaled),),
    )
    template = stored(workload)["spec"]["template"]
    assert template["cliques"][0]["spec"]["autoScalingConfig"]["minReplicas"] == 3
    assert template["podCliqueScalingGroups"][0]["scaleConfig"]["minReplicas"] == 2


def test_what_is_given_is_kept() -> None:
    workload = pcs(
        clique(minAvailable=1, pod={"restartPolicy": "Never", "terminationGracePeriodSeconds": 5}),
        terminationDelay="1h",
        headlessServiceConfig={"publishNotReadyAddresses": False},
        cliqueStartupType="CliqueStartupTypeInOrder",
    )
    workload["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert stored(workload) is workload


def test_a_replaced_manifest_without_a_minimum_keeps_the_one_it_has() -> None:
    old = stored(pcs(clique(replicas=4)))
    new = pcs(clique(replicas=6))
    assert first_clique(stored(new, old=old))["minAvailable"] == 4
    assert errors(new, old) == []


def test_an_object_that_was_not_filled_in_is_not_admitted() -> None:
    verdict = OperatorAdmission(ON).validate(request(pcs(clique(minAvailable=1))), view())
    assert (verdict.allowed, verdict.code) == (False, 503)
    assert "has not been defaulted" in verdict.message


def made(**spec: Any) -> Json:
    """A set with everything that is fixed."""
    claims = [{"name": "c", "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}}]
    shared = [{"name": "c", "scope": "AllReplicas"}]
    return stored(
        pcs(
            {**clique("a", roleName="r", minAvailable=1), "resourceSharing": shared},
            clique("b", startsAfter=["a"]),
            groups=(group("g", "b", replicas=2, resourceSharing=shared),),
            cliqueStartupType="CliqueStartupTypeExplicit",
            resourceClaimTemplates=claims,
            resourceSharing=shared,
        )
    )


def change(path: str, value: Any) -> Json:
    """The set with one field set, by a path such as `cliques.0.spec.roleName`; None takes it away."""
    new = made()
    here: Any = new["spec"]["template"]
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in way:
        here = here[part]
    if value is None:
        del here[last]
    else:
        here[last] = value
    return new


FIXED: dict[str, tuple[str, Any, str]] = {
    "startup type": ("cliqueStartupType", "CliqueStartupTypeInOrder", "spec.template.cliqueStartupType: Invalid value"),
    "claim templates": ("resourceClaimTemplates", None, "spec.template.resourceClaimTemplates: Invalid value"),
    "shared claims of the set": ("resourceSharing", None, "spec.template.resourceSharing: Invalid value"),
    "shared claims of a clique": ("cliques.0.resourceSharing", None, f"{CLIQUE}.resourceSharing: Invalid value"),
    "role": ("cliques.0.spec.roleName", "x", f'{CLIQUE}.spec.roleName: Invalid value: "x": field is immutable'),
    "minimum": ("cliques.0.spec.minAvailable", 2, f"{CLIQUE}.spec.minAvailable: Invalid value: 2: field is immutable"),
    "dependencies": ("cliques.1.spec.startsAfter", None, "spec.template.cliques[1].spec.startsAfter: Invalid value"),
    "members": ("podCliqueScalingGroups.0.cliqueNames", ["a"], f"{GROUP}.cliqueNames: Invalid value"),
    "group minimum": ("podCliqueScalingGroups.0.minAvailable", 2, f"{GROUP}.minAvailable: Invalid value: 2"),
    "shared claims of a group": (
        "podCliqueScalingGroups.0.resourceSharing",
        None,
        f"{GROUP}.resourceSharing: Invalid value",
    ),
    "group name": (
        "podCliqueScalingGroups.0.name",
        "h",
        "spec.template.podCliqueScalingGroups: Forbidden: "
        "not allowed to add, remove or rename scaling groups: added [h], removed [g]",
    ),
    "clique name": (
        "cliques.0.name",
        "z",
        "spec.template.cliques: Forbidden: not allowed to change clique composition: added [z], removed [a]",
    ),
    "scheduler": (
        "cliques.0.spec.podSpec.schedulerName",
        "default-scheduler",
        f'{CLIQUE}.spec.podSpec.schedulerName: Invalid value: "default-scheduler": field is immutable: '
        'the scheduler of this set is "kai-scheduler"',
    ),
}


@pytest.mark.parametrize("row", FIXED)
def test_what_is_fixed_cannot_change(row: str) -> None:
    path, value, expected = FIXED[row]
    found = errors(change(path, value), made())
    assert any(error.startswith(expected) for error in found), found


FREE: dict[str, tuple[str, Any]] = {
    "replicas of a clique": ("cliques.0.spec.replicas", 5),
    "replicas of a group": ("podCliqueScalingGroups.0.replicas", 5),
    "a container": ("cliques.0.spec.podSpec.containers.0.image", "example.com/app:2"),
    "priority": ("priorityClassName", "high"),
    "delay": ("terminationDelay", "1m0s"),
    "the default scheduler by name": ("cliques.0.spec.podSpec.schedulerName", "kai-scheduler"),
}


@pytest.mark.parametrize("row", FREE)
def test_what_is_free_may_change(row: str) -> None:
    assert errors(change(*FREE[row]), made()) == []


@pytest.mark.parametrize("kind", ["InOrder", "Explicit", "AnyOrder"])
def test_the_order_of_cliques_is_fixed_where_it_means_something(kind: str) -> None:
    startup = f"CliqueStartupType{kind}"
    old = stored(pcs(clique("a"), clique("b"), cliqueStartupType=startup))
    turned = pcs(clique("b"), clique("a"), cliqueStartupType=startup)
    text = f"spec.template.cliques: Forbidden: not allowed to change the order of cliques with {startup}, it was [a b]"
    assert errors(turned, old) == ([] if kind == "AnyOrder" else [text])


def test_the_strategy_may_change_both_ways() -> None:
    old, new = stored(pcs()), stored(pcs())
    new["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert (errors(new, old), errors(old, new)) == ([], [])


def test_nvlink_groups_are_fixed_even_in_metadata() -> None:
    old = stored(pcs(annotations={"grove.io/mnnvl-group": "none"}))
    assert errors(pcs(), old) == [
        'metadata.annotations[grove.io/mnnvl-group]: Forbidden: annotation is immutable: it was "none", found ""'
    ]


def test_a_change_is_not_refused_for_what_was_wrong_before() -> None:
    old = stored(pcs(clique(pod={"nodeName": "n"})))
    assert errors(changed(old, priorityClassName="high"), old) == []
    worse = copy.deepcopy(old)
    first_clique(worse)["replicas"] = 1
    assert [error.partition(":")[0] for error in errors(worse, old)] == [f"{CLIQUE}.spec.minAvailable"]


def test_a_change_is_not_warned_of_what_was_warned_of_before() -> None:
    old = stored(pcs(clique(pod={"restartPolicy": "Never"})))
    assert warnings(changed(old, priorityClassName="high"), old) == []


def test_p7_metadata_passes_whatever_has_become_of_the_topology() -> None:
    old = stored(pcs(constraint=pack("rack")))
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {"a": "b"}
    assert errors(new, old, lookup=View(), settings=OFF) == []
    assert errors(new, old, lookup=View()) == []


def test_inv8_a_set_that_is_being_deleted_may_lose_its_finalizers_whatever_it_looks_like() -> None:
    old: Json = {"metadata": {"name": "p", "namespace": "ns", "deletionTimestamp": "2030-01-01T00:00:00Z"}, "spec": []}
    assert errors(old | {"kind": "PodCliqueSet"}, old) == []
    assert errors(["nothing like a set"], old) != []  # type: ignore[arg-type]
