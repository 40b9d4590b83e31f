"""What a deployment says about itself: topology by reason, capacity as capacity, refusals as they are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.changes import Create, EmitEvent, Scale, SetStatus
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.meta import Condition
from spinney.core.expansion.dynamo.containers import gpus_of
from spinney.core.expansion.dynamo.deployment import expand
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.multinode import Observed
from spinney.core.expansion.dynamo.status import topology_finding
from unit.dynamo.dynamo_kit import Json, component, deployment, packed


@pytest.mark.parametrize("framework", ["trtllm", "vllm", "sglang"])
def test_a_deployment_of_more_nodes_than_any_cluster_has_is_told_and_not_made(framework: str) -> None:
    """It may have come past admission: no list of two billion hosts is begun."""
    wide = component("w", gpus=8, line=f"python3 -m dynamo.{framework}", multinode={"nodeCount": 2**31 - 1})
    found = expand(deployment("d", wide), Observed(DynamoSettings(), 0.0)).changes
    assert not [each for each in found if isinstance(each, Create)]
    (status,) = [each for each in found if isinstance(each, SetStatus)]
    assert "would have 2147483647 pods, at most 100000 are allowed" in str(status)


PACKED = deployment("d", component("w"), topologyConstraint=packed("rack"))


def said(reason: str, status: str, message: str = "") -> Condition:
    time = "2026-01-01T00:00:00Z"
    return Condition("TopologyLevelsUnavailable", status, reason=reason, message=message, last_transition_time=time)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, ("Unknown", "TopologyConditionPending")),
        (said("ClusterTopologyNotFound", "Unknown"), ("False", "TopologyDefinitionNotFound")),
        (said("ClusterTopologyNotFound", "True"), ("False", "TopologyDefinitionNotFound")),
        (said("ClusterTopologyLevelsUnavailable", "True"), ("False", "TopologyLevelsUnavailable")),
        (said("TopologyNameMissing", "Unknown"), ("False", "TopologyDefinitionNotFound")),
        (said("TopologyAwareSchedulingDisabled", "Unknown"), ("False", "TopologyAwareSchedulingDisabled")),
        (said("Whatever", "Unknown"), ("Unknown", "TopologyConditionPending")),
        (said("AllClusterTopologyLevelsAvailable", "False"), ("True", "AllTopologyLevelsAvailable")),
    ],
)
def test_d9_the_sets_condition_is_translated_by_its_reason(found: Condition | None, expected: tuple[str, str]) -> None:
    assert topology_finding(found, 1)[:2] == expected


def test_d9_a_lost_level_is_named_in_the_documents_words() -> None:
    lost = said("ClusterTopologyLevelsUnavailable", "True", "Unavailable topology domains: [rack]")
    assert topology_finding(lost, 1)[2] == "Topology level 'rack' is no longer available in the cluster topology"
    more = said("ClusterTopologyLevelsUnavailable", "True", "Unavailable topology domains: [rack host]")
    assert (
        topology_finding(more, 1)[2] == "Topology levels 'rack', 'host' are no longer available in the cluster topology"
    )


def test_d9_a_condition_of_an_older_set_is_not_believed() -> None:
    old = msgspec.structs.replace(said("AllClusterTopologyLevelsAvailable", "False"), observed_generation=1)
    assert topology_finding(old, 2)[1] == "TopologyConditionPending"


def test_d9_both_names_say_the_same_and_go_without_constraints() -> None:
    told = conditions_of(PACKED, live_set(said("AllClusterTopologyLevelsAvailable", "False")))
    assert told["TopologyConstraintsEnforced"]["status"] == told["TopologyLevelsAvailable"]["status"] == "True"
    free = deployment("d", component("w"))
    free["status"] = {"conditions": list(told.values())}
    assert set(conditions_of(free, live_set())) == {"Ready"}


def test_d10_applied_is_told_once_and_lost_is_a_warning() -> None:
    fine = said("AllClusterTopologyLevelsAvailable", "False")
    (applied,) = notices(PACKED, live_set(fine))
    assert (applied.reason, applied.warning) == ("TopologyConstraintsApplied", False)
    after = {**PACKED, "status": {"conditions": list(conditions_of(PACKED, live_set(fine)).values())}}
    assert notices(after, live_set(fine)) == []
    gone = said("ClusterTopologyLevelsUnavailable", "True", "Unavailable topology domains: [rack]")
    (lost,) = notices(after, live_set(gone))
    assert (lost.reason, lost.warning) == ("TopologyLevelsUnavailable", True)
    assert lost.message == (
        "Topology constraints no longer enforced: Topology level 'rack' is no longer available in the cluster topology"
    )


def test_d13_a_refused_set_shows_as_not_ready_with_an_event() -> None:
    observed = Observed(DynamoSettings(), 5.0, refusal="admission webhook denied the request: no")
    changes = expand(deployment("d", component("w")), observed).changes
    status = next(each for each in changes if isinstance(each, SetStatus))
    ready = next(each for each in status.status["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "failed_to_reconcile_the_resources")
    assert ready["message"] == "admission webhook denied the request: no"
    assert [each.message for each in changes if isinstance(each, EmitEvent)] == [ready["message"]]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"scheduledReplicas": 0}, "insufficient_capacity"),
        ({"scheduledReplicas": 1}, "insufficient_capacity"),
        ({"scheduledReplicas": 2}, "pods_not_ready"),
        ({"scheduledReplicas": 2, "readyReplicas": 2}, "all_resources_are_ready"),
        ({"scheduledReplicas": 2, "updatedReplicas": 1}, "updating"),
        ({"scheduledReplicas": 0, "scheduleGatedReplicas": 2}, "insufficient_capacity"),
        ({"scheduledReplicas": 2, "observedGeneration": 0}, "some_resources_are_not_ready"),
    ],
)
def test_a_clique_is_judged_by_its_numbers(numbers: Json, expected: str) -> None:
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, **numbers}
    found = conditions_of(deployment("d", component("w", replicas=2)), live_set(), cliques=[clique("d-0-w", 2, status)])
    assert found["Ready"]["reason"] == expected


def test_a_group_that_has_no_place_is_a_capacity_problem() -> None:
    obj = deployment("d", component("w", multinode={"nodeCount": 2}, replicas=1))
    found = conditions_of(
        obj, live_set(), groups=[group("d-0-w", 1, {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1})]
    )
    assert found["Ready"]["reason"] == "insufficient_capacity"
    assert "d: w: insufficient scheduled replicas: scheduled=0/1" in found["Ready"]["message"]


@pytest.mark.parametrize("nodes", [1, 2])
def test_pods_that_cannot_be_made_are_no_capacity_problem_and_the_reason_is_told(nodes: int) -> None:
    failure = {"code": "ERR_CREATE_POD", "description": "Pod w-*: invalid", "observedAt": "2026-01-01T00:00:00Z"}
    failing = {"observedGeneration": 1, "lastErrors": [failure]}
    multinode: dict[str, Any] = {"multinode": {"nodeCount": nodes}} if nodes > 1 else {}
    found = conditions_of(
        deployment("d", component("w", **multinode)),
        live_set(),
        cliques=[clique("d-0-w", 1, failing) if nodes == 1 else clique("d-0-w-0-w-ldr", 1, failing, "d-0-w")],
        groups=[group("d-0-w", 1, {"observedGeneration": 1, "replicas": 1})] if nodes > 1 else [],
    )
    assert found["Ready"]["reason"] == "some_resources_are_not_ready"
    assert found["Ready"]["message"] == "Resources not ready: d: w: Pod w-*: invalid"


def test_a_named_queue_that_is_missing_is_told_and_no_set_is_made() -> None:
    obj = deployment("d", component("w"), annotations={"nvidia.com/kai-scheduler-queue": "mine"})
    changes = expand(obj, Observed(DynamoSettings(), 5.0, queue_exists=False)).changes
    assert not any(isinstance(each, Create) for each in changes)
    status = next(each for each in changes if isinstance(each, SetStatus))
    assert "queue 'mine' not found in cluster" in status.status["conditions"][0]["message"]


def test_k16_without_a_named_queue_the_default_one_is_taken() -> None:
    changes = expand(deployment("d", component("w")), Observed(DynamoSettings(), 5.0, queue_exists=False)).changes
    assert any(isinstance(each, Create) and each.target.resource.kind == "PodCliqueSet" for each in changes)


def test_two_schedulers_with_queues_are_told_and_no_set_is_made() -> None:
    changes = expand(deployment("d", component("w")), Observed(DynamoSettings(volcano=True), 5.0)).changes
    assert not any(isinstance(each, Create) for each in changes)
    status = next(each for each in changes if isinstance(each, SetStatus)).status
    assert status["conditions"][0]["message"] == (
        "kai-scheduler and volcano scheduler integrations cannot both be enabled for Grove"
    )
    assert status["state"] == "failed"


def test_several_reasons_are_mixed_and_each_component_says_its_own() -> None:
    obj = deployment("d", component("a"), component("b"))
    numbers = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "scheduledReplicas": 1}
    found = conditions_of(obj, live_set(), cliques=[clique("d-0-a", 1, numbers)])["Ready"]
    assert found["reason"] == "mixed_not_ready_reasons"
    assert found["message"] == "Resources not ready: d: a: scheduled but ready=0/1; d: b: resource not found"
    assert found["observedGeneration"] == 1


def test_d13_a_template_that_cannot_be_rendered_is_told_and_no_set_is_made() -> None:
    bad = component("w", multinode={"nodeCount": 2}, line="python3 -m dynamo.vllm")
    bad["podTemplate"]["spec"]["containers"][0]["env"] = [{"value": "a"}]
    changes = expand(deployment("d", bad), Observed(DynamoSettings(), 5.0)).changes
    assert not [each for each in changes if isinstance(each, Create)]
    (status,) = [each.status for each in changes if isinstance(each, SetStatus)]
    assert status["conditions"][0]["reason"] == "failed_to_reconcile_the_resources"
    assert "no set can be made of a pod template" in status["conditions"][0]["message"]


@pytest.mark.parametrize(("amount", "gpus"), [("8", 8), (4, 4), ("8000m", 8), ("1.5", 1), ("a", 0)])
def test_gpus_are_counted_as_quantities(amount: Any, gpus: int) -> None:
    assert gpus_of({"resources": {"limits": {"nvidia.com/gpu": amount}}}) == gpus


def test_the_set_remembers_what_it_was_made_of() -> None:
    changes = expand(deployment("d", component("w")), Observed(DynamoSettings(), 5.0)).changes
    (made,) = [each for each in changes if isinstance(each, Create) and each.target.resource.kind == "PodCliqueSet"]
    annotations = made.body["metadata"]["annotations"]
    assert annotations["nvidia.com/last-applied-generation"] == "1"
    assert len(annotations["nvidia.com/last-applied-hash"]) == 16


def test_replicas_are_changed_where_they_are_scaled() -> None:
    obj = deployment("d", component("w", replicas=5))
    live = clique("d-0-w", 2, {"observedGeneration": 1})
    changes = expand(obj, Observed(DynamoSettings(), 5.0, live_set(), {"d-0-w": live})).changes
    (scale,) = [each for each in changes if isinstance(each, Scale)]
    assert (scale.target.name, scale.replicas) == ("d-0-w", 5)


def live_set(condition: Condition | None = None) -> Json:
    found = [msgspec.to_builtins(condition)] if condition is not None else []
    metadata = {"name": "d", "namespace": "ml", "uid": "s", "resourceVersion": "3", "generation": 1}
    return {"metadata": metadata, "spec": {"template": {}}, "status": {"conditions": found}}


def clique(name: str, replicas: int, status: Json, of: str = "") -> PodClique:
    labels = {"grove.io/podcliquescalinggroup": of} if of else {}
    made: PodClique = _made(name, {"podSpec": {}, "replicas": replicas}, status, PodClique)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels))


def group(name: str, replicas: int, status: Json) -> PodCliqueScalingGroup:
    return _made(name, {"cliqueNames": [], "replicas": replicas}, status, PodCliqueScalingGroup)


def _made(name: str, spec: Json, status: Json, kind: Any) -> Any:
    metadata = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": "1", "generation": 1}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, kind)


def _changes(obj: Json, live: Json, cliques: Any = (), groups: Any = ()) -> Any:
    observed = Observed(
        DynamoSettings(),
        5.0,
        live,
        {each.metadata.name: each for each in cliques},
        {each.metadata.name: each for each in groups},
    )
    return expand(obj, observed).changes


def conditions_of(obj: Json, live: Json, **behind: Any) -> dict[str, Json]:
    status = next(each for each in _changes(obj, live, **behind) if isinstance(each, SetStatus))
    return {each["type"]: each for each in status.status["conditions"]}


def notices(obj: Json, live: Json) -> list[EmitEvent]:
    return [each for each in _changes(obj, live) if isinstance(each, EmitEvent)]
