"""Every kind of owner from kubectl to pods in the right domain, the same on the embedded and on a real API server.

Jobs, Deployments and StatefulSets have controllers here; pods of other people's kinds are made as theirs would do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.grouper_kinds import FOREIGN, foreign_definition, owned_by
from contract.operator_stages import CONFIGURATION, GB200, HOST, RACK, ZONE, topology
from contract.scheduler_stages import GPU, GROUPS, Hall, scheduled, tree
from stack_kit.stage import Stage

Json = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples" / "workloads"
CONTROLLERS = ("deployment", "job", "replicaset", "statefulset")
TOPOLOGY = "kai.scheduler/topology"
REQUIRED, PREFERRED = f"{TOPOLOGY}-required-placement", f"{TOPOLOGY}-preferred-placement"
SEGMENT_SIZE, SEGMENT_REQUIRED = "kai.scheduler/segment-size", "kai.scheduler/segment-topology-required-placement"
QUEUE = "kai.scheduler/queue"
LEADER_WORKER = "leaderworkerset.sigs.k8s.io"
TWO_ZONES = tree(zones=2, racks=2, hosts=2)
"""In each zone two racks of sixteen GPUs."""


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with scheduled(request.param, tmp_path_factory.mktemp("scheduler-owners"), CONTROLLERS) as found:
        cluster = Space(found.server, "")
        for kind in FOREIGN:
            cluster.establish(foreign_definition(kind))
        found.apply(topology("gb200", GB200))
        found.eventually(lambda: found.exists("Topology", "gb200"), "the topology of the scheduler")
        yield found


def within(required: str = "", preferred: str = "", **more: str) -> Json:
    """Annotations of a workload."""
    levels = {REQUIRED: required, PREFERRED: preferred}
    return {TOPOLOGY: "gb200", **{key: value for key, value in levels.items() if value}, **more}


def pod_spec(gpus: int = 4, **more: Any) -> Json:
    amounts = {GPU: str(gpus)} if gpus else {}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"limits": amounts}}
    return {"schedulerName": "kai-scheduler", "containers": [container], **more}


def job(name: str, parallelism: int, annotations: Json, *, labels: Json | None = None, **spec: Any) -> Json:
    body = {"parallelism": parallelism, "completions": parallelism, **spec}
    lasting = {"annotations": {"spinney.dev/sim-run-seconds": "3600"}}
    body["template"] = {"metadata": lasting, "spec": pod_spec(body.pop("gpus", 4), restartPolicy="Never")}
    metadata = {"name": name, "annotations": annotations, "labels": labels or {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def example(hall: Hall, file: str) -> Json:
    """Applied by kubectl; as it is stored."""
    manifest = yaml.safe_load((EXAMPLES / file).read_text())
    hall.kubectl("apply", "-f", str(EXAMPLES / file))
    return stored(hall, manifest)


def stored(hall: Hall, manifest: Json) -> Json:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    found: Json = yaml.safe_load(hall.kubectl("get", kind.lower(), name, "-o", "yaml"))
    return found


def member(hall: Hall, owner: Json, name: str, labels: Json | None = None, gpus: int = 4) -> Json:
    """A pod as the controller of its owner would make it."""
    metadata = {"name": name, "ownerReferences": owned_by(owner), "labels": labels or {}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(gpus)}
    (made,) = hall.make(body)
    return made


def groups(hall: Hall) -> list[Json]:
    found: list[Json] = hall.space.list(GROUPS)["items"]
    return found


def count(hall: Hall, nodes: dict[str, str], level: str = RACK) -> int:
    return len(hall.domains(nodes.values(), level))


# Jobs


def test_k1_k2_an_annotated_job_runs_as_one_gang_in_its_zone(hall: Hall) -> None:
    """Eight pods of four GPUs are the whole of a zone; one of them less in the other zone leaves no choice."""
    hall.build(TWO_ZONES)
    hall.kubectl("cordon", "z0-b0-r0-n0")
    example(hall, "job.yaml")
    nodes = hall.running("pretrain", 8)
    assert hall.domains(nodes.values(), ZONE) == {"z1": 8}
    assert len(groups(hall)) == 1


def test_k2_a_job_that_asks_for_nothing_is_placed_pod_by_pod(hall: Hall) -> None:
    hall.build(tree(hosts=1))
    hall.apply(job("loose", 3, {}))
    hall.eventually(lambda: len(hall.bound("loose")) == 2, "two of three have room")
    hall.eventually(lambda: len(groups(hall)) == 3, "each has a group of its own")


def test_k2_a_job_set_waits_for_all_its_jobs_and_shares_a_zone(hall: Hall) -> None:
    hall.build(TWO_ZONES)
    above = example(hall, "jobset.yaml")
    (driver, workers) = above["spec"]["replicatedJobs"]
    parts = [("sweep-driver-0", driver), ("sweep-workers-0", workers), ("sweep-workers-1", workers)]
    for name, part in parts:
        assert hall.bound("sweep") == {}
        spec = part["template"]["spec"]
        metadata = {"name": name, "ownerReferences": owned_by(above)}
        hall.make({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        expected = sum(each["template"]["spec"]["parallelism"] for _, each in parts[: parts.index((name, part)) + 1])
        hall.eventually(lambda expected=expected: len(hall.pods("sweep")) == expected, f"the pods of {name}")
    assert count(hall, hall.running("sweep", 9), ZONE) == 1
    assert len(groups(hall)) == 1


# Sets of leaders and workers


def test_k2_each_replica_of_a_leader_worker_set_fills_a_rack_of_its_own(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=2))
    above = example(hall, "leader-worker-set.yaml")
    for replica in "01":
        for worker in "0123":
            labels = {f"{LEADER_WORKER}/group-index": replica, f"{LEADER_WORKER}/worker-index": worker}
            member(hall, above, f"llama-{replica}-{worker}", labels)
    hall.running("llama", 8)
    assert [count(hall, hall.bound(f"llama-{replica}")) for replica in "01"] == [1, 1]


def test_k2_k14_a_pytorch_job_begins_with_its_minimum_and_grows_in_its_rack(hall: Hall) -> None:
    """A rack has room for four of the eight; the others join when a node does."""
    hall.build(tree(racks=2, hosts=2))
    above = example(hall, "pytorchjob.yaml")
    for number in range(7):
        member(hall, above, f"finetune-w{number}", {"training.kubeflow.org/replica-type": "worker"})
    assert hall.bound("finetune") == {}
    member(hall, above, "finetune-m", {"training.kubeflow.org/replica-type": "master"})
    hall.eventually(lambda: len(hall.bound("finetune")) == 4, "as many as the rack holds")
    found = hall.bound("finetune")
    assert "finetune-m" in found
    (rack,) = hall.domains(found.values())
    hall.build("name: more" + tree(hosts=2).replace(f"label: {RACK}", "label: example.com/other"))
    for number in range(2):
        hall.kubectl("label", "node", f"more-z0-b0-r0-n{number}", *relabelled(rack), "--overwrite")
    assert set(hall.domains(hall.running("finetune", 8).values())) == {rack}


def relabelled(rack: str) -> list[str]:
    zone, block, last = rack.split("/")
    return [f"{ZONE}={zone}", f"example.com/block={block}", f"{RACK}={last}"]


def test_k2_a_launcher_joins_its_workers(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=3))
    above = example(hall, "mpijob.yaml")
    for number in range(4):
        member(hall, above, f"allreduce-w{number}", {"training.kubeflow.org/job-role": "worker"})
    workers = hall.running("allreduce-w", 4)
    member(hall, above, "allreduce-launcher", {"training.kubeflow.org/job-role": "launcher"}, gpus=1)
    launcher = hall.running("allreduce-launcher", 1)
    assert count(hall, {**workers, **launcher}) == 1
    assert len(groups(hall)) == 1


# Ray


def test_k1_k2_workers_of_a_ray_cluster_share_a_rack_and_all_of_it_a_zone(hall: Hall) -> None:
    hall.build(TWO_ZONES)
    above = example(hall, "raycluster.yaml")
    ray(hall, above, "tune", 4)
    nodes = hall.running("tune", 5)
    assert (count(hall, nodes, ZONE), count(hall, hall.bound("tune-worker"))) == (1, 1)


def test_k14_a_ray_cluster_starts_without_the_workers_that_its_autoscaler_makes_later(hall: Hall) -> None:
    hall.build(TWO_ZONES)
    manifest = yaml.safe_load((EXAMPLES / "raycluster.yaml").read_text())
    (workers,) = manifest["spec"]["workerGroupSpecs"]
    workers |= {"replicas": 0, "minReplicas": 0}
    hall.apply(manifest)
    above = stored(hall, manifest)
    ray(hall, above, "tune", 0)
    hall.running("tune-head", 1)
    member(hall, above, "tune-worker-0", {"ray.io/node-type": "worker", "ray.io/group": workers["groupName"]})
    assert count(hall, hall.running("tune", 2), ZONE) == 1


def test_k2_a_ray_job_asks_for_its_cluster_and_its_submitter_is_placed_alone(hall: Hall) -> None:
    hall.build(TWO_ZONES)
    template = yaml.safe_load((EXAMPLES / "raycluster.yaml").read_text())
    metadata = {"name": "study", "annotations": within("zone")}
    spec = {"rayClusterSpec": template["spec"]}
    (above,) = hall.make({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec})
    own = {"name": "study-c", "ownerReferences": owned_by(above)}
    (cluster,) = hall.make({**template, "metadata": own})
    ray(hall, cluster, "study", 3)
    submitter = job("submit", 1, {}, gpus=0)
    submitter["metadata"]["ownerReferences"] = owned_by(above)
    hall.make(submitter)
    hall.running("submit", 1)
    assert hall.bound("study") == {}
    member(hall, cluster, "study-worker-3", {"ray.io/node-type": "worker", "ray.io/group": "gpu"})
    nodes = hall.running("study", 5)
    assert (count(hall, nodes, ZONE), count(hall, hall.bound("study-worker"))) == (1, 1)


def ray(hall: Hall, cluster: Json, name: str, workers: int) -> None:
    member(hall, cluster, f"{name}-head", {"ray.io/node-type": "head", "ray.io/group": "headgroup"}, gpus=1)
    for number in range(workers):
        labels = {"ray.io/node-type": "worker", "ray.io/group": "gpu"}
        member(hall, cluster, f"{name}-worker-{number}", labels)


# Services


def test_k2_pods_of_a_deployment_come_one_by_one(hall: Hall) -> None:
    hall.build(tree(hosts=1))
    hall.apply(replicated("Deployment", "web", 3, {}))
    hall.eventually(lambda: len(hall.bound("web")) == 2, "two of three have room")
    hall.kubectl("scale", "deployment", "web", "--replicas=2")
    hall.running("web", 2)


def test_k2_k14_a_stateful_set_stays_in_the_rack_of_its_first_pod(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=2))
    hall.apply(replicated("StatefulSet", "db", 4, within("rack")))
    nodes = hall.running("db", 4)
    assert count(hall, nodes) == 1
    assert len(groups(hall)) == 1
    hall.kubectl("delete", "pod", "db-2", "--wait=false")
    hall.eventually(lambda: "db-2" in hall.bound("db"), "it comes again")
    assert count(hall, hall.running("db", 4)) == 1


def replicated(kind: str, name: str, replicas: int, annotations: Json) -> Json:
    labels = {"app": name}
    spec: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


# Others


def test_k2_a_bare_pod_is_a_gang_of_its_own(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=1))
    hall.kubectl("cordon", "z0-b0-r0-n0")
    metadata = {"name": "alone", "annotations": within("rack")}
    hall.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec()})
    assert hall.running("alone", 1) == {"alone": "z0-b0-r1-n0"}
    (found,) = groups(hall)
    assert found["spec"]["topologyConstraint"]["requiredTopologyLevel"] == RACK


def test_k2_pods_of_an_unknown_kind_join_each_other_in_one_domain(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=2))
    manifest = {"apiVersion": "invented.example.com/v1", "kind": "Invention"}
    hall.apply({**manifest, "metadata": {"name": "thing", "annotations": within("rack")}})
    above = stored(hall, {**manifest, "metadata": {"name": "thing"}})
    for number in range(4):
        member(hall, above, f"thing-{number}")
    assert count(hall, hall.running("thing", 4)) == 1
    member(hall, above, "thing-4")
    hall.tells("thing-4", f"Resources were not found for pod {hall.namespace}/thing-4")


def test_k2_a_pod_gang_of_another_operator_is_placed_as_it_says(stage: Stage, hall: Hall) -> None:
    """Our operator is away: the set, its clique, its gang and its pods are somebody else's."""
    hall.build(TWO_ZONES)
    stage.halt()
    try:
        containers = [{"name": "main", "image": "example.com/app:1"}]
        clique = {"name": "w", "spec": {"roleName": "w", "replicas": 1, "podSpec": {"containers": containers}}}
        kind = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet"}
        template = {"replicas": 1, "template": {"cliques": [clique]}}
        (above,) = hall.make({**kind, "metadata": {"name": "theirs"}, "spec": template})
        names = {"lead": ["lead-0"], "work": ["work-0", "work-1", "work-2"], "front": ["front-0"]}
        parts = [
            {
                "name": part,
                "minReplicas": len(pods),
                "podReferences": [{"namespace": hall.namespace, "name": f"theirs-{pod}"} for pod in pods],
            }
            for part, pods in names.items()
        ]
        one_rack = {"name": "model", "podGroupNames": ["lead", "work"], "topologyConstraint": packed(RACK)}
        gang = {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": "theirs-0", "annotations": {"grove.io/topology-name": "gb200"}},
            "spec": {
                "topologyConstraint": packed(ZONE),
                "topologyConstraintGroupConfigs": [one_rack],
                "podgroups": parts,
            },
        }
        hall.make(gang)
        for pod in (pod for pods in names.values() for pod in pods):
            member(hall, above, f"theirs-{pod}", {"grove.io/podgang": "theirs-0"})
        nodes = hall.running("theirs", 5)
        model = {name: node for name, node in nodes.items() if "front" not in name}
        assert (count(hall, nodes, ZONE), count(hall, model)) == (1, 1)
    finally:
        stage.operate(CONFIGURATION)


def packed(level: str) -> Json:
    return {"packConstraint": {"required": level}}


# Segments, ranks


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_k13_a_job_in_blocks_of_four_has_a_rack_for_each(hall: Hall, mode: str) -> None:
    """Three racks of sixteen GPUs hold two blocks and a smaller one."""
    hall.build(tree(racks=3, hosts=2))
    annotations = within("zone", **{SEGMENT_SIZE: "4", SEGMENT_REQUIRED: "rack"})
    hall.apply(job("blocks", 10, annotations, completionMode=mode))
    nodes = hall.running("blocks", 10)
    segments: dict[str, dict[str, str]] = {}
    for pod in hall.pods("blocks"):
        metadata = pod["metadata"]
        segment = metadata["annotations"]["spinney.dev/segment"]
        segments.setdefault(segment, {})[metadata["name"]] = nodes[metadata["name"]]
        if mode == "Indexed":
            index = int(metadata["annotations"]["batch.kubernetes.io/job-completion-index"])
            assert segment == str(index // 4)
    assert {segment: len(block) for segment, block in segments.items()} == {"0": 4, "1": 4, "2": 2}
    assert [count(hall, block) for block in segments.values()] == [1, 1, 1]


def test_k13_the_example_of_segments_runs(hall: Hall) -> None:
    hall.build(tree(racks=4, hosts=2))
    example(hall, "segments.yaml")
    assert sorted(hall.domains(hall.running("blocks", 16).values()).values()) == [4, 4, 4, 4]


def test_k13_a_leader_and_its_workers_can_be_cut_into_blocks(hall: Hall) -> None:
    hall.build(tree(racks=3, hosts=1))
    manifest = yaml.safe_load((EXAMPLES / "leader-worker-set.yaml").read_text())
    annotations = within("zone", **{SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rack"})
    manifest["metadata"] |= {"annotations": annotations}
    manifest["spec"]["replicas"] = 1
    hall.apply(manifest)
    above = stored(hall, manifest)
    for worker in range(4):
        labels = {f"{LEADER_WORKER}/group-index": "0", f"{LEADER_WORKER}/worker-index": str(worker)}
        member(hall, above, f"llama-0-{worker}", labels)
    nodes = hall.running("llama", 4)
    blocks: dict[str, list[str]] = {}
    for pod in hall.pods("llama-0"):
        segment = pod["metadata"]["annotations"]["spinney.dev/segment"]
        blocks.setdefault(segment, []).append(pod["metadata"]["name"])
    assert {segment: sorted(names) for segment, names in blocks.items()} == {
        "0": ["llama-0-0", "llama-0-1"],
        "1": ["llama-0-2", "llama-0-3"],
    }
    assert all(len(hall.domains(nodes[name] for name in names)) == 1 for names in blocks.values())


def test_k11_a_pod_that_has_a_node_has_what_its_downward_fields_name(hall: Hall) -> None:
    """No version of a pod is seen that has a node and not its rank: containers read it when they start."""
    hall.build(tree(racks=2, hosts=2))
    fields = [f"metadata.annotations['spinney.dev/{name}']" for name in ("rank", "domain", "segment")]
    annotations = within("zone", **{SEGMENT_SIZE: "2", SEGMENT_REQUIRED: "rack"})
    workload = job("ranked", 4, annotations, gpus=8)
    container = workload["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [
        {"name": f"FIELD_{number}", "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for number, path in enumerate(fields)
    ]
    version = hall.space.list("pods")["metadata"]["resourceVersion"]
    with hall.space.watch("pods", resourceVersion=version) as watch:
        hall.apply(workload)
        first: dict[str, Json] = {}
        for event in iter(watch.next, None):
            pod = event["object"]
            if pod["spec"].get("nodeName"):
                first.setdefault(pod["metadata"]["name"], pod)
            if len(first) == 4:
                break
    told = [[named(pod, path) for path in fields] for pod in first.values()]
    assert sorted(rank for rank, _, _ in told) == ["0", "1", "2", "3"]
    assert {domain for _, domain, _ in told} == {"z0"}
    assert sorted(segment for _, _, segment in told) == ["0", "0", "1", "1"]
    by_rank = sorted(first.values(), key=lambda pod: int(named(pod, fields[0])))
    nodes = [pod["spec"]["nodeName"] for pod in by_rank]
    assert nodes == sorted(nodes)


def named(pod: Json, path: str) -> str:
    """The value that the downward API gives for metadata.annotations['key']."""
    value: str = pod["metadata"]["annotations"][path.split("'")[1]]
    return value


# Queues and mistakes


def test_k16_the_queue_that_a_job_names_is_charged(hall: Hall) -> None:
    team = f"{hall.namespace}-team"
    hall.build(tree(hosts=2))
    free = {"quota": -1, "limit": -1}
    resources = {"gpu": {"quota": -1, "limit": 8}, "cpu": free, "memory": free}
    spec = {"parentQueue": "default-parent-queue", "resources": resources}
    hall.make({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": team}, "spec": spec})
    hall.apply(job("first", 2, within("rack"), labels={QUEUE: team}))
    hall.running("first", 2)
    hall.apply(job("second", 1, within("rack"), labels={QUEUE: team}))
    (name,) = hall.eventually(lambda: [each["metadata"]["name"] for each in hall.pods("second")], "its pod")
    sentence = f"{team} quota has reached the allowable limit of GPUs. Limit is 8"
    told = hall.tells(name, sentence)
    (gang,) = hall.explain("second")["gangs"]
    assert gang["explanation"]["lines"] == [told]


def test_k2_k16_a_missing_queue_is_seen_on_the_job_and_its_group(hall: Hall) -> None:
    team = f"{hall.namespace}-nobody"
    hall.build(tree())
    hall.apply(job("lost", 1, within("rack"), labels={QUEUE: team}))
    sentence = f"Queue '{team}' does not exist"
    hall.eventually(lambda: sentence in " ".join(hall.events("Job", "lost")), "an event on the Job")
    (found,) = hall.eventually(lambda: groups(hall), "its group")
    hall.says(found["metadata"]["name"], sentence)
    hall.kubectl("label", "job", "lost", f"{QUEUE}-")
    hall.running("lost", 1)


MISTAKES = {
    "a misspelt level": (within("rak"), {REQUIRED: "rack"}, 'found "rak", expected a level of topology gb200'),
    "no topology": ({REQUIRED: "rack"}, {TOPOLOGY: "gb200"}, TOPOLOGY),
    "no such topology": (within("rack", **{TOPOLOGY: "gb300"}), {TOPOLOGY: "gb200"}, "gb300"),
    "no level": ({TOPOLOGY: "gb200"}, {REQUIRED: "rack"}, REQUIRED),
    "no size": (within("rack", **{SEGMENT_SIZE: "four", SEGMENT_REQUIRED: "rack"}), {SEGMENT_SIZE: "4"}, SEGMENT_SIZE),
}


def test_k1_k2_mistakes_are_seen_on_the_job_and_what_is_corrected_runs(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=4))
    for number, (wrong, _, _) in enumerate(MISTAKES.values()):
        hall.apply(job(f"wrong-{number}", 2, wrong))
    for number, (_, _, fragment) in enumerate(MISTAKES.values()):
        name = f"wrong-{number}"
        hall.eventually(
            lambda name=name, fragment=fragment: fragment in " ".join(hall.events("Job", name, "PodGrouperWarning")),
            f"a warning on {name} about {fragment}",
        )
        assert "PodGrouperWarning" in hall.kubectl("describe", "job", name)
    assert hall.bound("wrong") == {}
    for number, (_, right, _) in enumerate(MISTAKES.values()):
        changes = [f"{key}={value}" for key, value in right.items()]
        hall.kubectl("annotate", "job", f"wrong-{number}", "--overwrite", *changes)
    for number in range(len(MISTAKES)):
        assert count(hall, hall.running(f"wrong-{number}", 2)) == 1


def test_k1_a_host_can_be_asked_for(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=2))
    hall.apply(job("close", 2, within("host")))
    assert count(hall, hall.running("close", 2), HOST) == 1
