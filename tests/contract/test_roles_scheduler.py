"""The scheduler has the rights that it needs and no others: recorded over what it does, also when answers are lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cluster_kit.loops import running
from cluster_kit.recording import LosesAnswers, Record, RecordingTransport
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.role_stages import DEADLINE_S, ELECTION, NODES, attended, configured, take_the_lease_away
from kube_apimachinery.system_clock import SystemClock
from spinney.api.labels import DEFAULT_QUEUE, SCHEDULER_KAI
from spinney.api.roles import ROLES
from spinney.api.roles.catalog import SCHEDULER_LEASE
from spinney.cli.wiring.roles.registry import RoleConfig
from spinney.cli.wiring.roles.scheduler import SchedulerRole
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.sim.controllers.manager import ALL
from spinney.sim.stack import Parts
from stack_kit.bare import kubeconfig_of_role

Json = dict[str, Any]
CONFIGURATION = configured(**ELECTION)


@asynccontextmanager
async def at_work(server: Server, scheduler: Path, record: Record) -> AsyncIterator[None]:
    """The scheduler by itself. Nobody makes volumes: claims wait for their node."""
    connection = find_connection(SystemClock(), kubeconfig=scheduler)
    transport = LosesAnswers(RecordingTransport(connect(connection), record))
    lease = LosesAnswers(RecordingTransport(connect(connection), record))
    role = SchedulerRole(RoleConfig(CONFIGURATION, connection), transport, lease)
    parts = Parts(NODES, controllers=[each for each in ALL if each != "claim"])
    async with attended(server, parts, role.run()):
        yield


def template(cpu: int = 1, **labels: str) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    spec = {"schedulerName": SCHEDULER_KAI, "containers": [container]}
    return {"metadata": {"labels": {"app": "a", **labels}}, "spec": spec}


def owner(kind: str, version: str, name: str, **spec: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def play(space: Space) -> None:
    once = {"metadata": template()["metadata"], "spec": {**template()["spec"], "restartPolicy": "Never"}}
    selector = {"selector": {"matchLabels": {"app": "a"}}, "template": template()}
    space.create("deployments", owner("Deployment", "apps/v1", "web", replicas=2, **selector)).ok(201)
    space.create("statefulsets", owner("StatefulSet", "apps/v1", "db", serviceName="db", **selector)).ok(201)
    hourly = space.create(
        "cronjobs",
        owner("CronJob", "batch/v1", "hourly", schedule="0 0 1 1 *", jobTemplate={"spec": {"template": once}}),
    ).ok(201)
    job = owner("Job", "batch/v1", "now", parallelism=2, completions=2, template=once)
    above = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "hourly", "uid": hourly["metadata"]["uid"]}
    job["metadata"]["ownerReferences"] = [{**above, "controller": True, "blockOwnerDeletion": True}]
    space.create("jobs", job).ok(201)
    space.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "huge"}, **_spec(template(999))}).ok(
        201
    )
    space.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"}, **_spec(template())}).ok(201)


def play_urgent(space: Space) -> None:
    """A pod that is more important than the others, and needs a whole node that they are on."""
    node = space.get("pods", "lone").ok(200)["spec"]["nodeName"]
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    Space(space.server, "").create("scheduling.k8s.io/v1/priorityclasses", {**urgent, "value": 1000}).ok(201)
    there = {"nodeSelector": {"kubernetes.io/hostname": node}}
    spec = {**template(8)["spec"], "priorityClassName": "urgent", **there}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent"}, "spec": spec}
    eventually(lambda: space.create("pods", pod).status == 201, "the class is known to the server", DEADLINE_S)
    eventually(lambda: space.get("pods", "urgent").ok(200)["spec"]["nodeName"], "others make room", DEADLINE_S)


def play_shards(server: Server) -> None:
    """What KAI is told by."""
    cluster = Space(server, "")
    for plural, kind, name in (("schedulingshards", "SchedulingShard", "default"), ("configs", "Config", "kai-config")):
        collection, body = f"kai.scheduler/v1/{plural}", {"apiVersion": "kai.scheduler/v1", "kind": kind}
        cluster.create(collection, {**body, "metadata": {"name": name}, "spec": {}}).ok(201)

        def is_judged(collection: str = collection, name: str = name) -> bool:
            return "status" in cluster.get(collection, name).ok(200)

        eventually(is_judged, f"{kind} is judged", DEADLINE_S)


SELECTED = "volume.kubernetes.io/selected-node"


def play_disk(space: Space) -> None:
    """A pod whose volume is made where it goes."""
    local = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
    made = {**local, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"}
    Space(space.server, "").create("storage.k8s.io/v1/storageclasses", made).ok(201)
    asked = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"}}
    amount = {"resources": {"requests": {"storage": "1Gi"}}}
    space.create("persistentvolumeclaims", {**claim, "spec": {**asked, **amount}}).ok(201)
    spec = {**template()["spec"], "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}
    space.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "disk"}, "spec": spec}).ok(201)

    def is_marked() -> bool:
        return SELECTED in (space.get("persistentvolumeclaims", "disk").ok(200)["metadata"].get("annotations") or {})

    eventually(is_marked, "its claim learns of the node", DEADLINE_S)


GROVE = "grove.io/v1alpha1"
GANG = {"grove.io/podgang": "gang", "app.kubernetes.io/managed-by": "grove-operator"}


def below(above: Json | None) -> Json:
    if above is None:
        return {}
    named = {"apiVersion": above["apiVersion"], "kind": above["kind"], "name": above["metadata"]["name"]}
    return {"ownerReferences": [{**named, "uid": above["metadata"]["uid"], "controller": True}]}


def play_grove(space: Space) -> None:
    """Another operator's set, down to a pod; and a pod that joins it after it had a group of its own."""
    kinds = {"PodCliqueSet": SET, "PodCliqueScalingGroup": GROUP, "PodClique": CLIQUE}
    above: Json | None = None
    for kind, spec in kinds.items():
        body = {"apiVersion": GROVE, "kind": kind, "metadata": {"name": "chain", **below(above)}, "spec": spec}
        above = space.create(f"{GROVE}/{kind.lower()}s", body).ok(201)
    parts = [{"name": "chain", "minReplicas": 1, "podReferences": [{"namespace": "default", "name": "huge"}]}]
    gang = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": "gang"}}
    space.create("scheduler.grove.io/v1alpha1/podgangs", {**gang, "spec": {"podgroups": parts}}).ok(201)
    labels = {**GANG, "grove.io/podclique": "chain"}
    eventually(lambda: space.get("pods", "huge").ok(200)["metadata"]["annotations"]["pod-group-name"], "its own group")
    space.patch("pods", "huge", {"metadata": {"labels": labels, **below(above)}}).ok(200)


CLIQUE: Json = {"replicas": 1, "minAvailable": 1, "podSpec": template()["spec"]}
GROUP: Json = {"replicas": 1, "minAvailable": 1, "cliqueNames": ["w"]}
SET: Json = {"replicas": 1, "template": {"cliques": [{"name": "w", "spec": CLIQUE}]}}


def _spec(pod: Json) -> Json:
    return {"spec": pod["spec"]}


def test_r14_the_scheduler_uses_every_right_of_its_role_and_no_other(role_server: Server, tmp_path: Path) -> None:
    record = Record()
    space = Space(role_server, "default")

    def is_placed() -> bool:
        pods = space.list("pods")["items"]
        waiting = [each["metadata"]["name"] for each in pods if not each["spec"].get("nodeName")]
        assert (len(pods), waiting) == (7, ["huge"])
        return True

    with running(at_work(role_server, kubeconfig_of_role(role_server, "scheduler", tmp_path), record)):
        take_the_lease_away(role_server, SCHEDULER_LEASE)
        play(space)
        play_shards(role_server)
        eventually(is_placed, "all but one are placed", DEADLINE_S)
        play_urgent(space)
        play_disk(space)
        play_grove(space)
        eventually(lambda: not own_group(space), "the group that it had for itself is gone", DEADLINE_S)
        eventually(lambda: conditions(space, "huge").get("PodScheduled") == "False", "one is told why not", DEADLINE_S)
        eventually(lambda: is_explained(role_server), "the queue tells what its gangs hold", DEADLINE_S)
    rights = ROLES["scheduler"]
    assert record.differences(*rights.cluster, *rights.own_namespace) == {
        "used and not granted": [],
        "granted and not used": [],
    }
    assert record.forbidden == []


def conditions(space: Space, name: str) -> dict[str, str]:
    found = space.get("pods", name).ok(200).get("status", {}).get("conditions") or []
    return {each["type"]: each["status"] for each in found}


def is_explained(server: Server) -> bool:
    found = Space(server, "").get("scheduling.run.ai/v2/queues", DEFAULT_QUEUE).ok(200)
    return bool(found.get("status", {}).get("allocated"))


def own_group(space: Space) -> list[str]:
    return [name for name in space.names("scheduling.run.ai/v2alpha2/podgroups") if "huge" in name]
