"""PodGroups and Queues that cannot work are refused when they are written, with the scheduler's words (K3)."""

from __future__ import annotations

from typing import Any

import pytest

from kube_apimachinery.admission import AdmissionRequest, Verdict
from spinney.core.admission.operator_admission import OperatorAdmission
from unit.admission.admission_kit import ON, View, topology

Json = dict[str, Any]
GROUP = "scheduling.run.ai"
RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"


def cluster() -> View:
    levels = [{"nodeLabel": "topology.kubernetes.io/zone"}, {"nodeLabel": RACK}]
    seen = View().add("topologies", {"metadata": {"name": "network"}, "spec": {"levels": levels}}, "kai.scheduler")
    return seen.add("clustertopologies", topology("zone", "rack", name="network"))


def judged(spec: Json, old: Json | None = None, kind: str = "podgroups", **metadata: Any) -> Verdict:
    def full(part: Json | None) -> Json | None:
        return None if part is None else {"metadata": {"name": "g", "namespace": "default", **metadata}, "spec": part}

    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(
        "", operation, GROUP, "v2", kind.title(), kind, "", "default", "g", "ada", (), full(spec), full(old)
    )
    rules = OperatorAdmission(ON)
    assert rules.handles(request)
    assert rules.mutate(request, cluster()).object is None
    return rules.validate(request, cluster())


def told(verdict: Verdict) -> list[str]:
    return [str(error) for error in verdict.errors]


def part(name: str, parent: str | None = None, **more: Any) -> Json:
    return {"name": name, **({"parent": parent} if parent else {}), **more}


def packed(topology: str = "network", **levels: str) -> Json:
    return {"topologyConstraint": {"topology": topology, **levels}}


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ([part("a"), part("a")], 'spec.subGroups[1].name: Invalid value: "a": duplicate subgroup name a'),
        ([part("a", "b")], 'spec.subGroups[0].parent: Invalid value: "b": parent b of a was not found'),
        ([part("a", "B"), part("b")], 'spec.subGroups[0].parent: Invalid value: "B": parent B of a was not found'),
        ([part("a", "b"), part("b", "a")], 'spec.subGroups: Invalid value: "a": cycle detected in subgroups'),
        (
            [part("s0"), *(part(f"s{number}", f"s{number - 1}") for number in range(1, 66))],
            'spec.subGroups: Invalid value: "s64": nested deeper than 64 levels',
        ),
        ([part("a", "a")], 'spec.subGroups: Invalid value: "a": cycle detected in subgroups'),
        (
            [part("a", minMember=1, minSubGroup=1), part("b", "a")],
            "spec.subGroups[0].minSubGroup: Invalid value: 1: minMember and minSubGroup are mutually exclusive",
        ),
        (
            [part("a", minSubGroup=2), part("b", "a")],
            "spec.subGroups[0].minSubGroup: Invalid value: 2: must be at most the number of direct sub-groups, 1",
        ),
    ],
)
def test_k3_sub_groups_form_a_tree(groups: list[Json], text: str) -> None:
    assert told(judged({"minMember": 1, "subGroups": groups})) == [text]


def test_k3_a_deep_tree_with_upper_case_names_is_allowed() -> None:
    deep = [part("A"), *(part(f"A{n}", "A" if n == 0 else f"A{n - 1}") for n in range(63))]
    assert judged({"subGroups": deep}).allowed


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            packed(requiredTopologyLevel="rak"),
            'spec.topologyConstraint.requiredTopologyLevel: Invalid value: "rak": '
            f"the topology tree 'network' does not contain a level with this name: [{RACK} {ZONE}]",
        ),
        (
            packed(preferredTopologyLevel="rack"),
            'spec.topologyConstraint.preferredTopologyLevel: Invalid value: "rack": '
            f'"rack" is the short name of a level: a PodGroup names its node label, "{RACK}"',
        ),
        (
            packed("nowhere", requiredTopologyLevel=RACK),
            'spec.topologyConstraint.topology: Invalid value: "nowhere": Requested topology nowhere does not exist',
        ),
        (
            packed("", requiredTopologyLevel=RACK),
            "spec.topologyConstraint.topology: Required value: "
            "a level is asked for, and levels are those of a topology",
        ),
        (
            packed(),
            "spec.topologyConstraint.requiredTopologyLevel: Required value: "
            "a topology alone asks for nothing: name a level of network",
        ),
        (
            {"subGroups": [part("a", **packed(requiredTopologyLevel="x"))]},
            'spec.subGroups[0].topologyConstraint.requiredTopologyLevel: Invalid value: "x": '
            f"the topology tree 'network' does not contain a level with this name: [{RACK} {ZONE}]",
        ),
    ],
)
def test_k3_a_constraint_names_a_topology_and_a_level_of_it(spec: Json, text: str) -> None:
    assert told(judged(spec)) == [text]


def test_k3_levels_that_the_topology_has_are_allowed() -> None:
    assert judged(packed(requiredTopologyLevel="topology.kubernetes.io/zone", preferredTopologyLevel=RACK)).allowed


def test_k3_a_group_that_an_operator_made_is_only_warned_of_a_missing_topology() -> None:
    owner = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "name": "g",
        "uid": "u",
        "controller": True,
    }
    verdict = judged(packed("nowhere", requiredTopologyLevel=RACK), ownerReferences=[owner])
    assert verdict.allowed
    assert "Requested topology nowhere does not exist" in verdict.warnings[0]


@pytest.mark.parametrize("spec", [packed(), packed("nowhere", requiredTopologyLevel=RACK)], ids=["no level", "unknown"])
def test_k3_a_group_that_a_pod_grouper_made_is_only_warned_of_its_topology(spec: Json) -> None:
    verdict = judged(spec, annotations={"kai.scheduler/top-owner-metadata": "name: w"})
    assert verdict.allowed
    assert len(verdict.warnings) == 1


def test_k3_an_update_is_refused_only_for_what_it_makes_wrong() -> None:
    wrong = {"subGroups": [part("a", "gone")], **packed("nowhere", requiredTopologyLevel=RACK)}
    assert judged({**wrong, "queue": "q"}, wrong).allowed
    assert not judged({**wrong, "subGroups": [part("a", "gone"), part("b", "lost")]}, wrong).allowed


def test_k3_a_group_that_names_many_topologies_is_judged_with_few_reads() -> None:
    groups = [part(f"s{n}", **packed(f"t{n}", requiredTopologyLevel=RACK)) for n in range(100)]
    assert not judged({"subGroups": groups}).allowed


def test_k16_a_queue_without_resources_is_refused() -> None:
    verdict = judged({"displayName": "x"}, kind="queues")
    assert told(verdict) == ["spec.resources: Required value: resources must be specified"]
    assert judged({"resources": {"gpu": {"quota": 1}}}, kind="queues").allowed
    assert judged({"displayName": "y"}, {"displayName": "y"}, kind="queues").allowed


def test_k16_a_queue_is_not_its_own_parent() -> None:
    verdict = judged({"resources": {}, "parentQueue": "g"}, kind="queues")
    assert told(verdict) == ['spec.parentQueue: Invalid value: "g": a queue cannot be its own parent']
