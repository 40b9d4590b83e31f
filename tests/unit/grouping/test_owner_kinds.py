"""Each owner kind is grouped as it starts: whose group it is, how many pods it needs, which part a pod is of (K2)."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.grouping.owners.registry import PASSED_OVER, SHAPES
from spinney.core.grouping.podgroups import Skip
from unit.grouping.grouping_kit import (
    RACK,
    REQUIRED,
    SEGMENT_REQUIRED,
    SEGMENT_SIZE,
    TOPOLOGY,
    ZONE,
    Cluster,
    ask,
    mistake,
    owner,
    parts,
    pod,
    wanted,
)

ASKS = {TOPOLOGY: "network", REQUIRED: "rack"}
KUBEFLOW = "kubeflow.org/v1"


# One pod, one owner


def test_k2_a_bare_pod_is_a_group_of_its_own() -> None:
    found = wanted(pod("p"))
    assert (found.name, found.spec.min_member, found.single) == ("pg-p-uid-p", 1, True)
    assert found.owner == {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"}


@pytest.mark.parametrize("kind", ["apps/v1/ReplicaSet", "apps/v1/StatefulSet", "example.com/v1/Invention"])
def test_k2_kinds_without_a_rule_are_one_elastic_group(kind: str) -> None:
    top = owner(kind, {"replicas": 8})
    one, other = wanted(pod("a"), top), wanted(pod("b"), top)
    assert one.name == other.name == "pg-w-uid-w"
    assert one.spec.min_member == 1
    assert one.owner["kind"] == top.kind


def test_k2_pods_of_a_deployment_are_placed_one_by_one() -> None:
    owners = owner("apps/v1/ReplicaSet", name="rs"), owner("apps/v1/Deployment", name="d", labels={"app": "web"})
    found = wanted(pod("p"), *owners)
    assert (found.name, found.owner["kind"]) == ("pg-p-uid-p", "Pod")
    assert (found.spec.priority_class_name, found.labels["app"]) == ("inference", "web")


def test_k2_pods_of_a_plain_job_are_placed_one_by_one() -> None:
    found = wanted(pod("p"), owner("batch/v1/Job", {"parallelism": 4}, name="j"))
    assert (found.name, found.spec.min_member, found.owner["kind"]) == ("pg-p-uid-j", 1, "Pod")


@pytest.mark.parametrize(
    ("spec", "status", "size"),
    [
        ({"parallelism": 4}, {}, 4),
        ({"parallelism": 4, "completions": 2}, {}, 2),
        ({"parallelism": 4, "completions": 10}, {"succeeded": 7}, 3),
        ({"parallelism": 4, "completions": 4}, {"succeeded": 4}, 1),
        ({}, {}, 1),
    ],
)
def test_k2_an_annotated_job_is_one_gang_of_its_parallelism(spec: Any, status: Any, size: int) -> None:
    found = wanted(pod("p"), owner("batch/v1/Job", spec, status=status, annotations=ASKS))
    assert (found.name, found.owner["kind"], found.spec.min_member) == ("pg-w-uid-w", "Job", size)
    assert found.spec.topology_constraint.required_topology_level == RACK


def test_k13_a_job_whose_pods_ask_for_segments_is_one_gang() -> None:
    segments = {TOPOLOGY: "network", SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rack"}
    found = wanted(pod("p", annotations=segments), owner("batch/v1/Job", {"parallelism": 4}))
    assert (found.name, found.spec.min_member) == ("pg-w-uid-w", 4)


def test_k2_a_cron_job_has_a_group_for_each_run() -> None:
    cron = owner("batch/v1/CronJob", name="c", labels={"team": "a"})
    found = wanted(pod("p"), owner("batch/v1/Job", {"parallelism": 3}, name="run-1"), cron)
    assert (found.name, found.spec.min_member, found.owner["name"]) == ("pg-run-1-uid-run-1", 1, "run-1")
    assert found.labels["team"] == "a"


def test_k2_a_run_of_an_annotated_cron_job_is_a_gang() -> None:
    cron = owner("batch/v1/CronJob", name="c", annotations=ASKS)
    found = wanted(pod("p"), owner("batch/v1/Job", {"parallelism": 3}, name="run-1"), cron)
    assert found.spec.min_member == 3
    assert found.spec.topology_constraint.required_topology_level == RACK


def test_k2_a_spark_application_is_one_group_named_after_it() -> None:
    driver = owner("v1/Pod", name="driver")
    found = wanted(pod("exec-1", labels={"spark-app-selector": "spark-42"}), driver)
    assert (found.name, found.spec.min_member, found.owner["name"]) == ("spark-42", 1, "driver")


# JobSet, LeaderWorkerSet, Knative


def jobset(order: str | None = None) -> Any:
    spec: Any = {
        "replicatedJobs": [
            {"name": "driver", "template": {"spec": {}}},
            {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3}}},
        ]
    }
    if order is not None:
        spec["startupPolicy"] = {"startupPolicyOrder": order}
    return owner("jobset.x-k8s.io/v1alpha2/JobSet", spec)


def of_jobset(replicated: str | None) -> Any:
    return pod("p", labels={"jobset.sigs.k8s.io/replicatedjob-name": replicated} if replicated else {})


@pytest.mark.parametrize("order", [None, "InOrder"])
@pytest.mark.parametrize(("replicated", "size"), [("driver", 1), ("workers", 6)])
def test_k2_jobs_of_a_set_that_start_in_order_are_gangs_of_their_own(
    order: str | None, replicated: str, size: int
) -> None:
    found = wanted(of_jobset(replicated), owner("batch/v1/Job", name="j"), jobset(order))
    assert (found.name, found.spec.min_member) == (f"pg-w-uid-w-{replicated}", size)


def test_k2_a_job_set_that_starts_in_any_order_is_one_gang() -> None:
    found = wanted(of_jobset("driver"), owner("batch/v1/Job", name="j"), jobset("AnyOrder"))
    assert (found.name, found.spec.min_member) == ("pg-w-uid-w", 7)


def test_k2_jobs_of_a_set_that_depend_on_others_are_gangs_of_their_own() -> None:
    dependent = jobset("AnyOrder")
    dependent.body["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Complete"}]
    found = wanted(of_jobset("driver"), owner("batch/v1/Job", name="j"), dependent)
    assert (found.name, found.spec.min_member) == ("pg-w-uid-w-driver", 1)


def test_k2_a_pod_of_no_replicated_job_is_a_mistake() -> None:
    assert mistake(of_jobset("other"), jobset()) == (
        "Pod ns/p: metadata.labels[jobset.sigs.k8s.io/replicatedjob-name]: "
        'found "other", expected a replicated job of JobSet ns/w: driver, workers'
    )


def lws(size: int = 4, **spec: Any) -> Any:
    return owner("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", {"leaderWorkerTemplate": {"size": size}, **spec})


def of_lws(group: int, worker: int, **more: Any) -> Any:
    name = f"w-{group}" if worker == 0 else f"w-{group}-{worker}"
    prefix = "leaderworkerset.sigs.k8s.io"
    return pod(name, labels={f"{prefix}/group-index": str(group), f"{prefix}/worker-index": str(worker)}, **more)


def test_k2_each_replica_of_a_leader_worker_set_is_a_gang_of_leader_and_workers() -> None:
    leader, worker = wanted(of_lws(1, 0), lws()), wanted(of_lws(1, 2), lws())
    assert leader.name == worker.name == "pg-w-uid-w-group-1"
    assert (leader.spec.min_member, parts(leader)) == (4, {"leader": 1, "workers": 3})
    assert (leader.part, worker.part) == ("leader", "workers")


def test_k2_a_leader_that_has_to_be_ready_first_is_waited_for_alone() -> None:
    ready_first = lws(startupPolicy="LeaderReady")
    waiting, placed = of_lws(0, 0), of_lws(0, 0, spec={"nodeName": "n"})
    before = wanted(waiting, ready_first, cluster=Cluster(pods=[waiting]))
    after = wanted(of_lws(0, 1), ready_first, cluster=Cluster(pods=[placed]))
    assert (before.spec.min_member, parts(before)) == (1, {"leader": 1})
    assert (after.spec.min_member, parts(after)) == (4, {"leader": 1, "workers": 3})


def test_k2_a_leader_without_workers_is_a_gang_of_one() -> None:
    assert parts(wanted(of_lws(0, 0), lws(size=1))) == {"leader": 1}


def in_blocks(size: int = 5, blocks: Any = None, **annotations: str) -> Any:
    """A set whose worker template asks for segments; `blocks` is its own policy of sub-groups."""
    template = {"metadata": {"annotations": {SEGMENT_REQUIRED: "rack", **annotations}}}
    workers = {"size": size, "workerTemplate": template, **({"subGroupPolicy": blocks} if blocks else {})}
    above = {TOPOLOGY: "network"}
    return owner("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", {"leaderWorkerTemplate": workers}, annotations=above)


def test_k13_a_leader_is_in_a_block_with_workers() -> None:
    above = in_blocks(**{SEGMENT_SIZE: "2"})  # type: ignore[arg-type]
    worker = of_lws(0, 1, annotations={SEGMENT_REQUIRED: "rack", SEGMENT_SIZE: "2"})
    for found in (wanted(of_lws(0, 0), above), wanted(worker, above)):
        assert (found.spec.min_member, parts(found), found.part) == (5, {"replica": 5}, "replica")
        assert (found.annotations[SEGMENT_SIZE], found.annotations[SEGMENT_REQUIRED]) == ("2", RACK)


def test_k13_the_sub_groups_of_a_leader_worker_set_are_its_blocks() -> None:
    worker = of_lws(0, 3, annotations={SEGMENT_REQUIRED: "rack"})
    found = wanted(worker, in_blocks(blocks={"subGroupSize": 2}))
    assert (parts(found), found.annotations[SEGMENT_SIZE]) == ({"replica": 5}, "2")


def test_k13_a_leader_that_its_set_leaves_out_of_sub_groups_is_in_no_block() -> None:
    blocks = {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}
    assert parts(wanted(of_lws(0, 0), in_blocks(blocks=blocks))) == {"leader": 1, "workers": 4}


def test_k13_sub_groups_for_which_no_level_is_asked_are_nothing_to_us() -> None:
    workers = {"size": 5, "subGroupPolicy": {"subGroupSize": 2}}
    found = wanted(
        of_lws(0, 0), owner("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", {"leaderWorkerTemplate": workers})
    )
    assert (parts(found), SEGMENT_SIZE in found.annotations) == ({"leader": 1, "workers": 4}, False)


def test_k2_a_knative_revision_is_as_large_as_it_never_gets_smaller_than() -> None:
    service = owner("serving.knative.dev/v1/Service", name="s")
    annotations = {"autoscaling.knative.dev/min-scale": "3"}
    revision = owner("serving.knative.dev/v1/Revision", name="s-1", annotations=annotations)
    found = wanted(pod("p"), owner("apps/v1/Deployment", name="d"), revision, service)
    assert (found.name, found.spec.min_member, found.owner["kind"]) == ("pg-s-1-uid-s-1", 3, "Revision")
    assert wanted(pod("p"), service).name == "pg-p-uid-p"


# Kubeflow


def trained(kind: str, field: str, replicas: dict[str, int], **spec: Any) -> Any:
    roles = {role: {"replicas": count} for role, count in replicas.items()}
    return owner(f"{KUBEFLOW}/{kind}", {field: roles, **spec})


def role(name: str) -> Any:
    return pod("p", labels={"training.kubeflow.org/replica-type": name})


AVAILABLE = {"runPolicy": {"schedulingPolicy": {"minAvailable": 3}}}


@pytest.mark.parametrize(
    ("kind", "field", "replicas"),
    [
        ("TFJob", "tfReplicaSpecs", {"Chief": 1, "PS": 2, "Worker": 4}),
        ("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 6}),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": 7}),
        ("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 6}),
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 6}),
    ],
)
def test_k2_a_training_job_is_one_gang_of_all_replicas_or_of_what_its_policy_says(
    kind: str, field: str, replicas: dict[str, int]
) -> None:
    assert wanted(role("worker"), trained(kind, field, replicas)).spec.min_member == 7
    assert wanted(role("worker"), trained(kind, field, replicas, **AVAILABLE)).spec.min_member == 3


@pytest.mark.parametrize(
    ("kind", "field", "missing"), [("JAXJob", "jaxReplicaSpecs", "Worker"), ("MPIJob", "mpiReplicaSpecs", "Launcher")]
)
def test_k2_a_training_job_without_a_role_it_needs_is_a_mistake(kind: str, field: str, missing: str) -> None:
    sentence = mistake(pod(), trained(kind, field, {"Ps": 1}))
    assert sentence == f"{kind} ns/w: spec.{field}.{missing}: found none, expected the replicas of that role"


def test_k2_a_launcher_that_waits_for_workers_is_not_waited_for_until_it_is_there() -> None:
    top = trained(
        "MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 4}, launcherCreationPolicy="WaitForWorkersReady"
    )
    launcher = {
        "labels": {"training.kubeflow.org/job-role": "launcher"},
        "annotations": {"pod-group-name": "pg-w-uid-w"},
    }
    marked, leaving = pod("l", **launcher), pod("l", **launcher, deletionTimestamp="2026-01-01T00:00:00Z")
    assert wanted(role("worker"), top).spec.min_member == 4
    assert wanted(role("launcher"), top).spec.min_member == 5
    assert wanted(role("worker"), top, cluster=Cluster(pods=[marked])).spec.min_member == 5
    assert wanted(role("worker"), top, cluster=Cluster(pods=[leaving])).spec.min_member == 4


def test_k2_the_pods_of_a_runai_job_are_grouped_by_their_names() -> None:
    top = owner("run.ai/v1/RunaiJob")
    first, second, other = (wanted(pod(name), top).name for name in ("w-0-abc", "w-0-def", "w-1-abc"))
    assert (first, other) == ("pg-w-0-uid-w", "pg-w-1-uid-w") and first == second
    assert wanted(pod("alone"), top).name == "pg-alone-uid-w"


def test_k2_an_azure_job_is_a_gang_of_its_nodes() -> None:
    kind = "amlarc.azureml.com/v1alpha1/AmlJob"
    found = wanted(pod("p"), owner(kind, {"job": {"options": {"envs": {"AZUREML_NODE_COUNT": 3}}}}))
    assert (found.name, found.spec.min_member) == ("pg-w-uid-w", 3)
    assert "AZUREML_NODE_COUNT: found none" in mistake(pod("p"), owner(kind))


@pytest.mark.parametrize(
    ("spec", "minima"),
    [
        ({}, {"master": 1, "worker": 4}),
        ({"elasticPolicy": {"minReplicas": 3}}, {"master": 1, "worker": 2}),
        ({"elasticPolicy": {"minReplicas": 4}, **AVAILABLE}, {"master": 1, "worker": 2}),
    ],
)
def test_k2_master_and_workers_of_a_pytorch_job_are_parts(spec: Any, minima: dict[str, int]) -> None:
    top = trained("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 4}, **spec)
    found = wanted(role("worker"), top)
    assert (parts(found), found.part) == (minima, "worker")
    assert found.spec.min_member == sum(minima.values())
    assert wanted(role("Master"), top).part == "master"


def test_k2_a_pod_of_no_role_of_its_pytorch_job_is_a_mistake() -> None:
    top = trained("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 4})
    assert "found none, expected a role of PyTorchJob ns/w: worker" in mistake(pod(), top)


def test_k2_a_replica_of_a_leader_worker_set_has_the_size_that_it_was_made_with() -> None:
    """While a set of another size is rolled out."""
    of_four = of_lws(0, 1, annotations={"leaderworkerset.sigs.k8s.io/size": "4"})
    assert parts(wanted(of_four, lws(8))) == {"leader": 1, "workers": 3}


# Ray


def ray_spec(suspended: str = "suspend", **group: Any) -> Any:
    workers = {"groupName": "gpu", "replicas": 3, "numOfHosts": 2, **group}
    return {"headGroupSpec": {}, "workerGroupSpecs": [workers, {"groupName": "idle", suspended: True, "replicas": 9}]}


def of_ray(kind: str, group: str = "") -> Any:
    return pod("p", labels={"ray.io/node-type": kind, "ray.io/group": group})


@pytest.mark.parametrize(
    "owners",
    [
        (owner("ray.io/v1/RayCluster", ray_spec()),),
        (owner("ray.io/v1/RayCluster", ray_spec("suspended")),),
        (owner("ray.io/v1/RayJob", {"rayClusterSpec": ray_spec()}),),
        (owner("ray.io/v1/RayService", {"rayClusterConfig": ray_spec()}),),
        (owner("ray.io/v1/RayCluster", ray_spec()), owner("ray.io/v1/RayJob", name="job")),
    ],
)
def test_k2_a_ray_cluster_is_one_gang_of_its_head_and_its_worker_groups(owners: Any) -> None:
    found = wanted(of_ray("worker", "gpu"), *owners)
    assert (found.name, found.spec.min_member, parts(found)) == ("pg-w-uid-w", 7, {"headgroup": 1, "gpu": 6})
    assert found.part == "gpu"
    assert wanted(of_ray("head", "headgroup"), *owners).part == "headgroup"


def test_k2_a_worker_group_that_grows_needs_its_smallest_size() -> None:
    top = owner("ray.io/v1/RayCluster", ray_spec(minReplicas=1))
    assert parts(wanted(of_ray("head"), top)) == {"headgroup": 1, "gpu": 2}


def test_k1_a_ray_group_can_ask_for_a_level_of_its_own() -> None:
    template = {"metadata": {"annotations": {REQUIRED: "rack"}}}
    top = owner(
        "ray.io/v1/RayCluster", ray_spec(template=template), annotations={TOPOLOGY: "network", REQUIRED: "zone"}
    )
    found = wanted(of_ray("head"), top)
    head, gpu = found.spec.sub_groups
    assert found.spec.topology_constraint.required_topology_level == ZONE
    assert head.topology_constraint is None
    assert gpu.topology_constraint is not None
    assert (gpu.topology_constraint.topology, gpu.topology_constraint.required_topology_level) == ("network", RACK)


def test_k1_the_topology_of_ray_groups_may_be_named_once_for_all() -> None:
    template = {"metadata": {"annotations": {REQUIRED: "rack"}}}
    found = wanted(
        of_ray("head"), owner("ray.io/v1/RayCluster", ray_spec(template=template), annotations={TOPOLOGY: "network"})
    )
    _, gpu = found.spec.sub_groups
    assert found.spec.topology_constraint.topology == ""
    assert gpu.topology_constraint is not None
    assert (gpu.topology_constraint.topology, gpu.topology_constraint.required_topology_level) == ("network", RACK)


def test_k2_an_annotation_of_a_ray_group_that_is_no_string_is_told() -> None:
    template = {"metadata": {"annotations": {REQUIRED: ["rack"]}}}
    top = owner("ray.io/v1/RayCluster", ray_spec(template=template), annotations={TOPOLOGY: "network"})
    assert mistake(of_ray("head"), top) == (
        f"RayCluster ns/w: spec.workerGroupSpecs[0].template.metadata.annotations[{REQUIRED}]: "
        'found ["rack"], expected a string'
    )


def test_k2_the_pod_that_submits_a_ray_job_is_placed_alone() -> None:
    found = wanted(pod("submit"), owner("batch/v1/Job", name="j"), owner("ray.io/v1/RayJob"))
    assert found.name == "pg-submit-uid-submit"


def test_k2_a_worker_of_an_unknown_ray_group_is_a_mistake() -> None:
    sentence = mistake(of_ray("worker", "cpu"), owner("ray.io/v1/RayCluster", ray_spec()))
    assert sentence.endswith('found "cpu", expected a worker group of RayCluster ns/w: gpu')


# Owners that only wrap others


@pytest.mark.parametrize("kind", sorted(PASSED_OVER))
def test_k2_kinds_that_wrap_another_leave_the_group_to_it(kind: tuple[str, str]) -> None:
    wrapper = owner(
        f"{kind[0]}/v1/{kind[1]}", name="wrap", labels={"kai.scheduler/queue": "research"}, annotations=ASKS
    )
    found = wanted(pod("p"), owner("batch/v1/Job", {"parallelism": 2}, name="j"), wrapper)
    assert (found.name, found.spec.min_member, found.spec.queue) == ("pg-j-uid-j", 2, "research")
    assert found.spec.topology_constraint.required_topology_level == RACK
    assert found.annotations["kai.scheduler/top-owner-metadata"] == (
        f"name: wrap\nuid: uid-wrap\ngroup: {kind[0]}\nversion: v1\nkind: {kind[1]}\n"
    )


def test_k2_a_pod_right_under_a_wrapper_stands_for_itself() -> None:
    found = wanted(pod("step"), owner("argoproj.io/v1alpha1/Workflow", labels={"kai.scheduler/queue": "research"}))
    assert (found.name, found.spec.queue) == ("pg-step-uid-step", "research")


# Odd shapes


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_k2_an_owner_of_any_shape_is_grouped_or_refused_in_words(kind: tuple[str, str]) -> None:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": "a",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
        "ray.io/node-type": "head",
        "training.kubeflow.org/replica-type": "worker",
    }
    for spec in (None, {}, {"parallelism": "two", "replicatedJobs": 3, "headGroupSpec": [], "workerGroupSpecs": "x"}):
        answer = ask(pod("p", labels=labels), owner(f"{kind[0]}/v1/{kind[1]}", spec, annotations=ASKS))
        assert not isinstance(answer, Skip)


def test_k2_a_number_that_is_none_is_a_mistake_of_the_owner() -> None:
    assert mistake(pod(), owner("batch/v1/Job", {"parallelism": "two"}, annotations=ASKS)) == (
        'Job ns/w: spec.parallelism: found "two", expected a whole number of 0 or more'
    )


def test_k2_the_name_of_a_group_fits_whatever_its_owner_is_called() -> None:
    found = wanted(pod("p"), owner("apps/v1/StatefulSet", name="a." * 126 + "b", uid="u" * 36))
    assert len(found.name) <= 253
    assert found.name.endswith("-" + "u" * 36)
    assert ".-" not in found.name
