"""The decisions of the small controllers, as pure functions of what is there."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

import msgspec
import pytest

from spinney.sim.controllers import claims, deployment, disruption, job, replicaset, statefulset
from spinney.sim.controllers.children import template_hash
from spinney.sim.controllers.effects import Create, Decision, Delete, Patch
from spinney.sim.objects import Json, OwnerReference, Pod

T0 = 1_767_225_600.0
STAMP = "2026-01-01T00:00:00Z"
TEMPLATE: Json = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}


def names() -> Any:
    numbers = count()
    return lambda prefix: f"{prefix}{next(numbers)}"


def make(kind: str, api_version: str, name: str = "w", status: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "5", "generation": 2},
        "spec": spec,
        "status": status or {},
    }


def pod(name: str, phase: str = "Running", ready: bool = True, leaving: bool = False, **metadata: Any) -> Pod:
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": STAMP}]
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "labels": {"app": "a"},
                "deletionTimestamp": STAMP if leaving else None,
                **metadata,
            },
            "spec": {"nodeName": "n"},
            "status": {"phase": phase, "conditions": conditions},
        },
        Pod,
    )


def created(decision: Decision) -> list[str]:
    return [effect.ref.name for effect in decision.effects if isinstance(effect, Create)]


def removed(decision: Decision) -> list[str]:
    return [effect.ref.name for effect in decision.effects if isinstance(effect, Delete)]


def status_of(decision: Decision) -> Json:
    found = [
        each.patch["status"] for each in decision.effects if isinstance(each, Patch) and each.subresource == "status"
    ]
    return found[0] if found else {}


class TestReplicaSet:
    def make(self, replicas: int, status: Json | None = None, **spec: Any) -> Json:
        return make("ReplicaSet", "apps/v1", status=status, replicas=replicas, template=TEMPLATE, **spec)

    def test_missing_pods_are_created_from_the_template(self) -> None:
        decision = replicaset.decide(self.make(2), [], T0, names())
        assert created(decision) == ["w-0", "w-1"]
        body = next(effect.body for effect in decision.effects if isinstance(effect, Create))
        assert body["spec"] == TEMPLATE["spec"]
        assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-w"

    def test_of_surplus_pods_the_unready_go_first(self) -> None:
        pods = [pod("a"), pod("b", ready=False), pod("c")]
        assert removed(replicaset.decide(self.make(2), pods, T0, names())) == ["b"]

    def test_terminating_and_finished_pods_do_not_count(self) -> None:
        pods = [pod("a", leaving=True), pod("b", "Failed"), pod("c")]
        assert len(created(replicaset.decide(self.make(3), pods, T0, names()))) == 2

    def test_at_rest_nothing_is_written(self) -> None:
        pods = [pod("a"), pod("b")]
        status = status_of(replicaset.decide(self.make(2), pods, T0, names()))
        assert replicaset.decide(self.make(2, status), pods, T0, names()) == Decision()

    def test_a_pod_is_available_once_it_has_been_ready_long_enough(self) -> None:
        early = replicaset.decide(self.make(1, minReadySeconds=10), [pod("a")], T0 + 4, names())
        assert status_of(early).get("availableReplicas") is None
        assert early.again_s == T0 + 10
        late = replicaset.decide(self.make(1, minReadySeconds=10), [pod("a")], T0 + 10, names())
        assert status_of(late)["availableReplicas"] == 1


class TestJob:
    def make(self, status: Json | None = None, **spec: Any) -> Json:
        return make("Job", "batch/v1", status=status, template=TEMPLATE, **spec)

    def decide(self, obj: Json, pods: list[Pod], after_s: float = 0) -> Decision:
        return job.decide(obj, pods, T0 + after_s, names())

    def test_as_many_pods_as_its_parallelism(self) -> None:
        assert len(created(self.decide(self.make(parallelism=3, completions=5), []))) == 3

    def test_never_more_pods_than_completions_are_left(self) -> None:
        pods = [pod("a", "Succeeded"), pod("b", "Succeeded"), pod("c")]
        assert created(self.decide(self.make(parallelism=3, completions=3), pods)) == []

    def test_it_completes_when_enough_have_succeeded(self) -> None:
        status = status_of(self.decide(self.make(parallelism=1, completions=1), [pod("a", "Succeeded")]))
        assert [each["type"] for each in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert status["succeeded"] == 1
        assert status["completionTime"] == STAMP

    def test_it_fails_when_too_many_have_failed_and_stops_the_rest(self) -> None:
        pods = [pod("a", "Failed"), pod("b", "Failed"), pod("c")]
        decision = self.decide(self.make(parallelism=1, completions=1, backoffLimit=1), pods)
        assert removed(decision) == ["c"]
        assert status_of(decision)["conditions"][-1]["reason"] == "BackoffLimitExceeded"

    def test_a_finished_job_is_left_alone(self) -> None:
        status = status_of(self.decide(self.make(parallelism=1, completions=1), [pod("a", "Succeeded")]))
        assert self.decide(self.make(status, parallelism=1, completions=1), []) == Decision()

    def test_indexed_pods_know_their_index(self) -> None:
        decision = self.decide(self.make(parallelism=2, completions=2, completionMode="Indexed"), [])
        first = next(effect.body for effect in decision.effects if isinstance(effect, Create))
        assert created(decision) == ["w-0-0", "w-1-1"]
        assert first["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0"
        assert first["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "0"
        assert first["spec"]["hostname"] == "w-0"
        assert first["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"

    def test_a_lost_index_is_created_again(self) -> None:
        index = "batch.kubernetes.io/job-completion-index"
        pods = [pod("w-0-x", "Succeeded", annotations={index: "0"}), pod("w-2-x", annotations={index: "2"})]
        decision = self.decide(self.make(parallelism=3, completions=3, completionMode="Indexed"), pods)
        assert created(decision) == ["w-1-0"]
        assert status_of(decision)["completedIndexes"] == "0"

    def test_a_suspended_job_has_no_pods_and_says_so(self) -> None:
        decision = self.decide(self.make(parallelism=2, completions=2, suspend=True), [pod("a")])
        assert removed(decision) == ["a"]
        assert status_of(decision)["conditions"][0]["reason"] == "JobSuspended"

    def test_a_deadline_ends_it(self) -> None:
        obj = self.make({"startTime": STAMP}, parallelism=1, completions=1, activeDeadlineSeconds=30)
        assert self.decide(obj, [pod("a")], 29).again_s == T0 + 30
        assert status_of(self.decide(obj, [pod("a")], 30))["conditions"][-1]["reason"] == "DeadlineExceeded"

    def test_it_goes_when_its_time_to_live_is_over(self) -> None:
        ended = [{"type": "Complete", "status": "True", "lastTransitionTime": STAMP}]
        obj = self.make({"conditions": ended}, ttlSecondsAfterFinished=60)
        assert self.decide(obj, [], 59).again_s == T0 + 60
        assert removed(self.decide(obj, [], 60)) == ["w"]

    @pytest.mark.parametrize(("text", "numbers"), [("", []), ("0-2,5", [0, 1, 2, 5]), ("7", [7])])
    def test_indexes_are_spelled_as_kubernetes_does(self, text: str, numbers: list[int]) -> None:
        assert job.parse_indexes(text) == numbers
        assert job.spell_indexes(numbers) == text


class TestDeployment:
    def make(self, replicas: int = 4, template: Json | None = None, revision: int = 1, **spec: Any) -> Json:
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": template or TEMPLATE,
            **spec,
        }
        found = make("Deployment", "apps/v1", **spec)
        found["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": str(revision)}
        return found

    def replicaset(self, template: Json, size: int, available: int, revision: int) -> Json:
        mark = template_hash(template)
        found = make("ReplicaSet", "apps/v1", f"w-{mark}", replicas=size, template=template)
        found["metadata"] |= {
            "labels": {"pod-template-hash": mark},
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
        }
        found["status"] = {"replicas": size, "readyReplicas": available, "availableReplicas": available}
        return found

    def sizes(self, decision: Decision) -> dict[str, int]:
        patches = [each for each in decision.effects if isinstance(each, Patch) and "spec" in each.patch]
        return {each.ref.name: each.patch["spec"]["replicas"] for each in patches}

    NEW: ClassVar[Json] = {**TEMPLATE, "spec": {"containers": [{"name": "main", "image": "y"}]}}

    def test_the_first_replicaset_is_created_whole(self) -> None:
        decision = deployment.decide(self.make(), [], 0, T0)
        (body,) = [effect.body for effect in decision.effects if isinstance(effect, Create)]
        assert body["spec"]["replicas"] == 4
        assert body["spec"]["selector"]["matchLabels"]["pod-template-hash"] == template_hash(TEMPLATE)
        assert body["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == template_hash(TEMPLATE)

    def test_a_rolling_update_stays_within_its_limits(self) -> None:
        """From 4 old to 4 new with one more and one less: never below 3 available, never above 5 in all."""
        old, new = self.replicaset(TEMPLATE, 4, 4, 1), self.replicaset(self.NEW, 0, 0, 2)
        wanted = self.make(
            template=self.NEW, revision=2, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        )
        for _ in range(20):
            for each in (old, new):
                each["status"] = {"replicas": each["spec"]["replicas"], "availableReplicas": each["spec"]["replicas"]}
            sizes = self.sizes(deployment.decide(wanted, [old, new], 0, T0))
            if not sizes:
                break
            grown = max(0, sizes.get(new["metadata"]["name"], new["spec"]["replicas"]) - new["spec"]["replicas"])
            for each in (old, new):
                each["spec"]["replicas"] = sizes.get(each["metadata"]["name"], each["spec"]["replicas"])
            assert old["spec"]["replicas"] + new["spec"]["replicas"] <= 5
            assert old["spec"]["replicas"] + new["spec"]["replicas"] - grown >= 3
        assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 4)

    def test_a_rolling_update_waits_for_new_pods_that_do_not_come_up(self) -> None:
        old, new = self.replicaset(TEMPLATE, 3, 3, 1), self.replicaset(self.NEW, 2, 0, 2)
        wanted = self.make(
            template=self.NEW, revision=2, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        )
        assert self.sizes(deployment.decide(wanted, [old, new], 0, T0)) == {}

    def test_recreate_waits_until_the_old_pods_are_gone(self) -> None:
        old = self.replicaset(TEMPLATE, 4, 4, 1)
        wanted = self.make(template=self.NEW, strategy={"type": "Recreate"})
        first = deployment.decide(wanted, [old], 4, T0)
        assert self.sizes(first) == {old["metadata"]["name"]: 0}
        assert created(first) == []
        old["spec"]["replicas"] = 0
        assert created(deployment.decide(wanted, [old], 1, T0)) == []
        assert len(created(deployment.decide(wanted, [old], 0, T0))) == 1

    def test_a_paused_deployment_changes_nothing(self) -> None:
        old = self.replicaset(TEMPLATE, 4, 4, 1)
        decision = deployment.decide(self.make(template=self.NEW, paused=True), [old], 0, T0)
        assert created(decision) == []
        assert self.sizes(decision) == {}

    def test_a_template_that_comes_back_becomes_the_newest_revision(self) -> None:
        again, other = self.replicaset(TEMPLATE, 0, 0, 1), self.replicaset(self.NEW, 4, 4, 2)
        (effect,) = deployment.decide(self.make(revision=2), [again, other], 0, T0).effects
        assert isinstance(effect, Patch)
        assert effect.ref.name == again["metadata"]["name"]
        assert effect.patch["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "3"}

    def test_at_rest_nothing_is_written(self) -> None:
        new = self.replicaset(TEMPLATE, 4, 4, 1)
        wanted = self.make()
        wanted["status"] = status_of(deployment.decide(wanted, [new], 0, T0))
        assert deployment.decide(wanted, [new], 0, T0 + 100) == Decision()

    def test_old_replicasets_beyond_the_history_are_forgotten(self) -> None:
        olds = [
            self.replicaset({**TEMPLATE, "spec": {"containers": [{"name": "m", "image": str(number)}]}}, 0, 0, number)
            for number in range(1, 5)
        ]
        new = self.replicaset(TEMPLATE, 4, 4, 9)
        decision = deployment.decide(self.make(revision=9, revisionHistoryLimit=1), [*olds, new], 0, T0)
        assert removed(decision) == [each["metadata"]["name"] for each in olds[:3]]


class TestStatefulSet:
    def make(self, replicas: int = 3, **spec: Any) -> Json:
        selector = {"matchLabels": {"app": "a"}}
        return make("StatefulSet", "apps/v1", replicas=replicas, template=TEMPLATE, selector=selector, **spec)

    def current(self, ordinal: int, ready: bool = True, **rest: Any) -> Pod:
        labels = {"controller-revision-hash": statefulset.revision(self.make())}
        return pod(f"w-{ordinal}", ready=ready, labels=labels, **rest)

    def test_pods_come_one_after_another(self) -> None:
        assert created(statefulset.decide(self.make(), [], frozenset(), T0)) == ["w-0"]
        waiting = [self.current(0, ready=False)]
        assert created(statefulset.decide(self.make(), waiting, frozenset(), T0)) == []
        assert created(statefulset.decide(self.make(), [self.current(0)], frozenset(), T0)) == ["w-1"]

    def test_parallel_pods_come_all_at_once(self) -> None:
        decision = statefulset.decide(self.make(podManagementPolicy="Parallel"), [], frozenset(), T0)
        assert created(decision) == ["w-0", "w-1", "w-2"]

    def test_the_highest_pod_goes_first_and_alone(self) -> None:
        pods = [self.current(0), self.current(1), self.current(2)]
        assert removed(statefulset.decide(self.make(1), pods, frozenset(), T0)) == ["w-2"]
        pods[2] = self.current(2, leaving=True)
        assert removed(statefulset.decide(self.make(1), pods, frozenset(), T0)) == []

    def test_an_update_replaces_from_the_top_and_waits(self) -> None:
        old = [pod(f"w-{ordinal}", labels={"controller-revision-hash": "old"}) for ordinal in range(3)]
        assert removed(statefulset.decide(self.make(), old, frozenset(), T0)) == ["w-2"]
        halfway = [*old[:2], self.current(2, ready=False)]
        assert removed(statefulset.decide(self.make(), halfway, frozenset(), T0)) == []

    def test_a_partition_holds_back_the_update(self) -> None:
        old = [pod(f"w-{ordinal}", labels={"controller-revision-hash": "old"}) for ordinal in range(2)]
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        decision = statefulset.decide(self.make(updateStrategy=strategy), [*old, self.current(2)], frozenset(), T0)
        assert removed(decision) == []

    def test_claims_are_made_once_and_mounted(self) -> None:
        templates = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
        obj = self.make(volumeClaimTemplates=templates)
        assert created(statefulset.decide(obj, [], frozenset(), T0)) == ["data-w-0", "w-0"]
        decision = statefulset.decide(obj, [], frozenset({"data-w-0"}), T0)
        assert created(decision) == ["w-0"]
        (body,) = [effect.body for effect in decision.effects if isinstance(effect, Create)]
        assert body["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}]

    def test_at_rest_nothing_is_written(self) -> None:
        pods = [self.current(ordinal) for ordinal in range(3)]
        obj = self.make()
        obj["status"] = status_of(statefulset.decide(obj, pods, frozenset(), T0))
        assert statefulset.decide(obj, pods, frozenset(), T0) == Decision()


class TestDisruptionBudget:
    def make(self, status: Json | None = None, **spec: Any) -> Json:
        selector = {"matchLabels": {"app": "a"}}
        return make("PodDisruptionBudget", "policy/v1", status=status, selector=selector, **spec)

    def decide(self, budget: Json, pods: list[Pod], scale: int | None = None, after_s: float = 0) -> Json:
        def scale_of(_owner: OwnerReference) -> int | None:
            return scale

        return status_of(disruption.decide(budget, pods, scale_of, T0 + after_s))

    OWNER: ClassVar[list[Json]] = [{"kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}]

    @pytest.mark.parametrize(
        ("spec", "scale", "expected", "desired", "allowed"),
        [
            ({"minAvailable": 2}, 9, 4, 2, 1),
            ({"minAvailable": "50%"}, 5, 5, 3, None),
            ({"maxUnavailable": 1}, 4, 4, 3, None),
            ({"maxUnavailable": "25%"}, 4, 4, 3, None),
            ({"maxUnavailable": 2}, 4, 4, 2, 1),
        ],
    )
    def test_how_many_may_go(self, spec: Json, scale: int, expected: int, desired: int, allowed: int | None) -> None:
        pods = [pod(name, ownerReferences=self.OWNER) for name in "abc"]
        pods.append(pod("d", ready=False, ownerReferences=self.OWNER))
        status = self.decide(self.make(**spec), pods, scale)
        found = (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"])
        assert found == (expected, desired, 3)
        assert status.get("disruptionsAllowed") == allowed

    def test_a_granted_eviction_counts_until_it_is_seen_or_forgotten(self) -> None:
        budget = self.make({"disruptedPods": {"a": STAMP}}, minAvailable=1)
        pods = [pod("a"), pod("b")]
        assert self.decide(budget, pods)["currentHealthy"] == 1
        late = self.decide(budget, pods, after_s=121)
        assert late["currentHealthy"] == 2
        assert late["disruptedPods"] == {"a": None}

    def test_pods_that_are_not_chosen_do_not_count(self) -> None:
        status = self.decide(self.make(minAvailable=1), [pod("a"), pod("b", labels={"app": "b"})])
        assert status["expectedPods"] == 1

    def test_at_rest_nothing_is_written(self) -> None:
        pods = [pod("a"), pod("b")]
        status = self.decide(self.make(minAvailable=1), pods)
        assert self.decide(self.make(status, minAvailable=1), pods) == {}


class TestClaim:
    def test_a_claim_gets_a_volume_then_its_name_then_its_phase(self) -> None:
        claim = make("PersistentVolumeClaim", "v1", resources={"requests": {"storage": "5Gi"}})
        (create,) = claims.decide(claim, None).effects
        assert isinstance(create, Create)
        assert create.body["spec"]["capacity"] == {"storage": "5Gi"}
        volume = {**create.body, "metadata": {"name": create.ref.name, "uid": "v", "resourceVersion": "1"}}
        (named,) = claims.decide(claim, volume).effects
        assert isinstance(named, Patch)
        assert named.patch["spec"] == {"volumeName": "pvc-uid-w"}
        claim["spec"]["volumeName"] = "pvc-uid-w"
        phases = [
            each.patch["status"]["phase"] for each in claims.decide(claim, volume).effects if isinstance(each, Patch)
        ]
        assert phases == ["Bound", "Bound"]

    def test_a_claim_of_a_late_class_gets_its_volume_when_a_node_is_chosen_and_where_the_class_reaches(self) -> None:
        topology = [{"matchLabelExpressions": [{"key": "rack", "values": ["r1"]}]}]
        late = {"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topology}
        claim = make("PersistentVolumeClaim", "v1", storageClassName="late")
        assert claims.decide(claim, None, late) == Decision()
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n"}
        (create,) = claims.decide(claim, None, late).effects
        assert isinstance(create, Create)
        (term,) = create.body["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term == {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}

    def test_a_claim_waits_for_a_class_that_is_not_there_and_for_people_where_nobody_provisions(self) -> None:
        claim = make("PersistentVolumeClaim", "v1", storageClassName="late")
        assert claims.decide(claim, None) == Decision()
        assert claims.decide(claim, None, {"provisioner": "kubernetes.io/no-provisioner"}) == Decision()

    def test_a_claim_without_a_class_is_left_to_people(self) -> None:
        assert claims.decide(make("PersistentVolumeClaim", "v1", storageClassName=""), None) == Decision()
