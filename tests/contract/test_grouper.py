"""The pod-grouper on both servers: every owner kind gets its groups, and mistakes are seen where they were made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.loops import running
from cluster_kit.server import Reply, Server, eventually
from cluster_kit.space import Space
from contract.grouper_kinds import collection_of, install, owned_by
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.grouper.grouper import Grouper
from stack_kit.stage import while_running

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
QUEUES = "scheduling.run.ai/v2/queues"
ZONE, RACK = "topology.kubernetes.io/zone", "nvidia.com/gpu.clique"
LEADER_WORKER = "leaderworkerset.sigs.k8s.io"
DEADLINE_S = 150.0


@dataclass(frozen=True)
class Stage:
    """A namespace whose pods are grouped, by a scheduler name that no other test has."""

    space: Space
    scheduler: str

    def make(self, manifest: Json, **metadata: Any) -> Json:
        body = {**manifest, "metadata": {**manifest["metadata"], **metadata}}
        made: Json = self.space.create(collection_of(body), body).ok(201)
        return {**made, "apiVersion": body["apiVersion"], "kind": body["kind"]}

    def example(self, file: str) -> Json:
        """A workload of the documentation; its topology and its scheduler are this test's."""
        manifest = yaml.safe_load((EXAMPLES / file).read_text().replace("kai-scheduler", self.scheduler))
        annotations = {**manifest["metadata"]["annotations"], "kai.scheduler/topology": self.scheduler}
        return self.make(manifest, annotations=annotations)

    def pod(self, name: str, *owners: Json, **metadata: Any) -> Json:
        """A pod as a controller would make it, below the first of the owners."""
        above = {"ownerReferences": owned_by(owners[0])} if owners else {}
        container = {"name": "main", "image": "example.com/app:1"}
        spec = {"schedulerName": self.scheduler, "containers": [container]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **above, **metadata}, "spec": spec}
        return self.make(body)

    def pods_of(self, job: str, count: int) -> list[str]:
        """The pods of a Job, which its controller makes."""

        def check() -> list[str]:
            found = self.space.names("pods", labelSelector=f"batch.kubernetes.io/job-name={job}")
            assert len(found) == count
            return found

        found: list[str] = eventually(check, f"{count} pods of {job}", DEADLINE_S)
        return found

    def get(self, name: str) -> Json:
        found: Json = self.space.get("pods", name).ok(200)
        return found

    def group_of(self, name: str) -> Json:
        """The group of a pod, once it has one."""

        def check() -> Json:
            named = self.get(name)["metadata"]["annotations"]["pod-group-name"]
            found: Json = self.space.get(GROUPS, named).ok(200)
            return found

        found: Json = eventually(check, f"{name} has a group", DEADLINE_S)
        return found

    def part_of(self, name: str) -> str:
        part: str = self.get(name)["metadata"]["labels"]["kai.scheduler/subgroup-name"]
        return part

    def warnings(self, kind: str, name: str) -> list[str]:
        selector = f"involvedObject.kind={kind},involvedObject.name={name},reason=PodGrouperWarning"
        return [each["message"] for each in self.space.list("events", fieldSelector=selector)["items"]]


@pytest.fixture
def stage(server: Server, space: Space, cluster: Space, unique: str) -> Iterator[Stage]:
    install(server)
    levels = {"zone": ZONE, "rack": RACK}
    shared = {"metadata": {"name": unique}}
    cluster.create(
        "grove.io/v1alpha1/clustertopologies",
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopology",
            **shared,
            "spec": {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]},
        },
    ).ok(201)
    cluster.create(
        "kai.scheduler/v1alpha1/topologies",
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            **shared,
            "spec": {"levels": [{"nodeLabel": key} for key in levels.values()]},
        },
    ).ok(201)
    with running(_grouping(server, unique)):
        yield Stage(space, unique)


@asynccontextmanager
async def _grouping(server: Server, scheduler: str) -> AsyncIterator[None]:
    transport = connect(find_connection(SystemClock(), kubeconfig=server.kubeconfig))
    settings = GrouperSettings(scheduler_names=frozenset({scheduler}))
    grouper = Grouper(transport, SystemClock(), system_dice(), settings)
    async with while_running(grouper.run, grouper.ready, transport.close):
        yield


def minima(group: Json) -> dict[str, int]:
    return {each["name"]: each.get("minMember", 0) for each in group["spec"].get("subGroups") or ()}


def levels(group: Json) -> tuple[str, str]:
    found = group["spec"]["topologyConstraint"]
    return found.get("requiredTopologyLevel", ""), found.get("preferredTopologyLevel", "")


# The examples of docs/workloads.md


def test_k1_k2_an_annotated_job_is_one_gang_by_short_names(stage: Stage) -> None:
    job = stage.example("job.yaml")
    (found, *others) = [stage.group_of(name) for name in stage.pods_of("pretrain", 8)]
    assert {each["metadata"]["uid"] for each in others} == {found["metadata"]["uid"]}
    assert (found["spec"]["minMember"], levels(found)) == (8, (ZONE, RACK))
    assert (found["spec"]["queue"], found["spec"]["priorityClassName"]) == ("default-queue", "train")
    assert found["metadata"]["name"] == f"pg-pretrain-{job['metadata']['uid']}"


def test_k13_segments_of_a_job_reach_its_group(stage: Stage) -> None:
    stage.example("segments.yaml")
    (first, *_) = stage.pods_of("blocks", 16)
    annotations = stage.group_of(first)["metadata"]["annotations"]
    assert annotations["kai.scheduler/segment-size"] == "4"
    assert annotations["kai.scheduler/segment-topology-required-placement"] == RACK


def test_k2_a_job_set_is_one_gang(stage: Stage) -> None:
    above = stage.example("jobset.yaml")
    template = above["spec"]["replicatedJobs"][1]["template"]["spec"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sweep-workers-0"}, "spec": template}
    stage.make(job, ownerReferences=owned_by(above))
    (first, *_) = stage.pods_of("sweep-workers-0", 4)
    found = stage.group_of(first)
    assert (found["spec"]["minMember"], levels(found)) == (9, (ZONE, ""))
    assert found["metadata"]["ownerReferences"][0]["kind"] == "JobSet"


def test_k2_replicas_of_a_leader_worker_set_are_gangs_of_their_own(stage: Stage) -> None:
    above = stage.example("leader-worker-set.yaml")
    for replica in ("0", "1"):
        for worker in ("0", "1"):
            labels = {f"{LEADER_WORKER}/group-index": replica, f"{LEADER_WORKER}/worker-index": worker}
            stage.pod(f"llama-{replica}-{worker}", above, labels=labels)
    groups = {stage.group_of(f"llama-{replica}-1")["metadata"]["name"] for replica in ("0", "1")}
    assert len(groups) == 2
    found = stage.group_of("llama-0-0")
    assert (minima(found), levels(found)) == ({"leader": 1, "workers": 3}, (RACK, ""))
    assert (stage.part_of("llama-0-0"), stage.part_of("llama-0-1")) == ("leader", "workers")


def test_k2_a_pytorch_job_has_a_master_and_workers(stage: Stage) -> None:
    above = stage.example("pytorchjob.yaml")
    for role in ("master", "worker"):
        stage.pod(role, above, labels={"training.kubeflow.org/replica-type": role})
    found = stage.group_of("worker")
    assert (found["spec"]["minMember"], minima(found)) == (4, {"master": 1, "worker": 3})
    stage.group_of("master")
    assert (stage.part_of("master"), stage.part_of("worker")) == ("master", "worker")


def test_k2_a_launcher_is_waited_for_once_it_is_there(stage: Stage) -> None:
    above = stage.example("mpijob.yaml")
    stage.pod("worker", above, labels={"training.kubeflow.org/job-role": "worker"})
    assert stage.group_of("worker")["spec"]["minMember"] == 4
    stage.pod("launcher", above, labels={"training.kubeflow.org/job-role": "launcher"})
    eventually(lambda: stage.group_of("launcher")["spec"]["minMember"] == 5, "the launcher counts", DEADLINE_S)


def test_k1_k2_a_ray_cluster_has_groups_with_levels_of_their_own(stage: Stage) -> None:
    above = stage.example("raycluster.yaml")
    stage.pod("head", above, labels={"ray.io/node-type": "head", "ray.io/group": "headgroup"})
    stage.pod("worker", above, labels={"ray.io/node-type": "worker", "ray.io/group": "gpu"})
    found = stage.group_of("worker")
    assert (minima(found), levels(found)) == ({"headgroup": 1, "gpu": 4}, (ZONE, ""))
    assert found["spec"]["subGroups"][1]["topologyConstraint"]["requiredTopologyLevel"] == RACK
    stage.group_of("head")
    assert (stage.part_of("head"), stage.part_of("worker")) == ("headgroup", "gpu")


# Other kinds


def test_k2_pods_of_a_deployment_are_placed_one_by_one(stage: Stage) -> None:
    selector = {"matchLabels": {"app": "web"}}
    containers = [{"name": "main", "image": "example.com/web:1"}]
    spec = {
        "replicas": 0,
        "selector": selector,
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}},
    }
    above = stage.make({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    own = {"name": "web-1", "ownerReferences": owned_by(above)}
    below = stage.make({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": own, "spec": spec})
    stage.pod("a", below)
    stage.pod("b", below)
    found, other = stage.group_of("a"), stage.group_of("b")
    assert found["metadata"]["uid"] != other["metadata"]["uid"]
    assert (found["spec"]["minMember"], found["spec"]["priorityClassName"]) == (1, "inference")
    assert "kind: Deployment" in found["metadata"]["annotations"]["kai.scheduler/top-owner-metadata"]


@pytest.mark.parametrize("kind", ["StatefulSet", "Invention"])
def test_k2_other_owners_are_one_elastic_group(stage: Stage, kind: str) -> None:
    containers = [{"name": "main", "image": "example.com/db:1"}]
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template}
    api_version = "apps/v1" if kind == "StatefulSet" else "invented.example.com/v1"
    above = stage.make({"apiVersion": api_version, "kind": kind, "metadata": {"name": "db"}, "spec": spec})
    stage.pod("db-0", above)
    stage.pod("db-1", above)
    found = stage.group_of("db-0")
    assert found["metadata"]["uid"] == stage.group_of("db-1")["metadata"]["uid"]
    assert found["spec"]["minMember"] == 1


def test_k2_a_step_of_a_workflow_is_a_pod_with_the_words_of_the_workflow(stage: Stage) -> None:
    labels = {"kai.scheduler/queue": "default-queue", "team": "vision"}
    above = stage.make(
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "w", "labels": labels}}
    )
    stage.pod("step", above)
    found = stage.group_of("step")
    assert found["metadata"]["name"].startswith("pg-step-")
    assert found["metadata"]["labels"]["team"] == "vision"


def test_k2_a_pod_gang_of_another_operator_becomes_a_group(stage: Stage) -> None:
    references = [{"namespace": stage.space.namespace, "name": "p"}]
    pack = {"packConstraint": {"required": RACK}}
    gang = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": "g", "annotations": {"grove.io/topology-name": stage.scheduler}},
        "spec": {
            "topologyConstraint": pack,
            "podgroups": [{"name": "lead", "minReplicas": 1, "podReferences": references}],
        },
    }
    made = stage.make(gang)
    clique = {"name": "c", "spec": {"podSpec": {"containers": [{"name": "main", "image": "example.com/app:1"}]}}}
    above = stage.make(
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "s"},
            "spec": {"replicas": 1, "template": {"cliques": [clique]}},
        }
    )
    stage.pod("p", above, labels={"grove.io/podgang": "g"})
    found = stage.group_of("p")
    assert (found["metadata"]["name"], levels(found)) == (f"pg-g-{made['metadata']['uid']}", (RACK, ""))
    assert (minima(found), stage.part_of("p")) == ({"lead": 1}, "lead")
    assert found["metadata"]["ownerReferences"][0]["kind"] == "PodGang"


# Mistakes


def test_k1_k2_a_mistake_is_seen_on_the_job_and_the_pod_and_heals(stage: Stage) -> None:
    placement = "kai.scheduler/topology-required-placement"
    wrong = {"kai.scheduler/topology": stage.scheduler, placement: "rak"}
    container = {"name": "main", "image": "example.com/app:1"}
    template = {"spec": {"schedulerName": stage.scheduler, "restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "annotations": wrong}}
    stage.make({**job, "spec": {"template": template}})
    (name,) = stage.pods_of("train", 1)
    sentence = (
        f'Job {stage.space.namespace}/train: metadata.annotations[{placement}]: found "rak", '
        f"expected a level of topology {stage.scheduler}: {ZONE}, {RACK}, zone, rack; did you mean rack?"
    )

    def seen() -> bool:
        (condition,) = [each for each in stage.get(name)["status"]["conditions"] if each["type"] == "PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "PodGrouperWarning")
        assert condition["message"] == sentence
        return stage.warnings("Job", "train") == stage.warnings("Pod", name) == [sentence]

    eventually(seen, "the mistake is seen", DEADLINE_S)
    stage.space.patch("jobs", "train", {"metadata": {"annotations": {placement: "rack"}}}).ok(200)
    assert levels(stage.group_of(name))[0] == RACK
    eventually(lambda: "PodScheduled" not in _types(stage.get(name)), "the complaint is taken back", DEADLINE_S)


def _types(pod: Json) -> list[str]:
    return [each["type"] for each in pod["status"].get("conditions") or ()]


def test_k16_default_queues_are_there_and_a_missing_queue_is_told(stage: Stage, cluster: Space) -> None:
    parent = eventually(lambda: cluster.get(QUEUES, "default-queue").ok(200), "the default queue")["spec"][
        "parentQueue"
    ]
    assert cluster.exists(QUEUES, parent)
    above = stage.make(
        {"apiVersion": "invented.example.com/v1", "kind": "Invention", "metadata": {"name": "i"}},
        labels={"kai.scheduler/queue": "no-such-queue"},
    )
    stage.pod("p", above)
    assert stage.group_of("p")["spec"]["queue"] == "no-such-queue"
    told = eventually(lambda: stage.warnings("Invention", "i"), "the warning", DEADLINE_S)
    assert told[0].endswith("Queue 'no-such-queue' does not exist")


def test_k3_the_spelling_of_the_document_is_refused_with_a_hint(stage: Stage) -> None:
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}}
    constraint = {"topology": stage.scheduler, "requiredTopologyLevel": RACK}
    for spec in (
        {"minMember": 1, "topologyConstraints": constraint},
        {"subGroups": [{"name": "a", "topologyConstraints": constraint}]},
    ):
        reply: Reply = stage.space.create(GROUPS, {**group, "spec": spec}, fieldValidation="Ignore")
        reply.refused(422, "Invalid", "did you mean topologyConstraint?")
