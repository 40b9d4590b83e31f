"""kubectl: apply in all its forms, create, replace, edit, patch, label, scale, delete, drain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.objects import binding, budget, config, crd, custom, deployment, job, node, pod
from cluster_kit.server import eventually
from cluster_kit.space import Space


def manifest(*documents: Any) -> str:
    return yaml.safe_dump_all(documents)


def test_apply_creates_configures_and_leaves_alone(space: Space, kubectl: Any) -> None:
    text = manifest(config("a", {"x": "1"}))
    assert kubectl("apply", "-f", "-", input=text) == "configmap/a created\n"
    assert kubectl("apply", "-f", "-", input=text) == "configmap/a unchanged\n"
    assert kubectl("apply", "-f", "-", input=manifest(config("a", {"z": "2"}))) == "configmap/a configured\n"
    now = space.get("configmaps", "a").ok()
    assert now["data"] == {"z": "2"}
    assert "kubectl.kubernetes.io/last-applied-configuration" in now["metadata"]["annotations"]


def test_apply_keeps_what_others_added(space: Space, kubectl: Any) -> None:
    kubectl("apply", "-f", "-", input=manifest(deployment("d", replicas=1)))
    space.patch(
        "deployments",
        "d",
        {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "i:1"}]}}}},
        "strategic",
    ).ok()
    changed = deployment("d", replicas=2)
    assert kubectl("apply", "-f", "-", input=manifest(changed)) == "deployment.apps/d configured\n"
    spec = space.get("deployments", "d").ok()["spec"]
    assert spec["replicas"] == 2
    assert sorted(each["name"] for each in spec["template"]["spec"]["containers"]) == ["main", "side"]


def test_apply_of_several_documents(space: Space, kubectl: Any) -> None:
    text = manifest(config("a"), pod("p"), deployment("d"))
    assert kubectl("apply", "-f", "-", input=text).split("\n")[:3] == [
        "configmap/a created",
        "pod/p created",
        "deployment.apps/d created",
    ]
    assert kubectl("delete", "-f", "-", "--wait=false", input=text).count("deleted") == 3


def listed(*objects: Any) -> str:
    return manifest({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def test_a_list_is_applied_created_and_deleted(space: Space, kubectl: Any) -> None:
    both = listed(config("a", {"x": "1"}), job("j", suspend=True))
    assert kubectl("apply", "-f", "-", input=both) == "configmap/a created\njob.batch/j created\n"
    assert kubectl("apply", "-f", "-", input=both) == "configmap/a unchanged\njob.batch/j unchanged\n"
    changed = listed(config("a", {"x": "2"}))
    assert kubectl("apply", "-f", "-", input=changed) == "configmap/a configured\n"
    assert kubectl("apply", "--server-side", "-f", "-", input=listed(config("c"))) == "configmap/c serverside-applied\n"
    assert kubectl("create", "-f", "-", input=listed(config("b"))) == "configmap/b created\n"
    kubectl("delete", "-f", "-", input=both)
    assert not space.exists("configmaps", "a")


def test_an_unknown_field_in_a_list_is_refused(space: Space, refused: Any) -> None:
    wrong = listed({**config("a"), "datta": {"x": "1"}})
    assert 'unknown field "datta"' in refused("apply", "-f", "-", input=wrong)
    assert not space.exists("configmaps", "a")


@pytest.mark.parametrize("command", [("apply",), ("apply", "--server-side"), ("create",), ("delete",)])
def test_a_kind_that_is_not_there_has_no_matches(command: tuple[str, ...], refused: Any) -> None:
    unknown = {"apiVersion": "nope.example/v1", "kind": "Nope", "metadata": {"name": "x"}}
    said = refused(*command, "-f", "-", input=manifest(unknown))
    assert 'resource mapping not found for name: "x"' in said
    assert 'no matches for kind "Nope" in version "nope.example/v1"' in said


def test_apply_of_custom_objects(space: Space, cluster: Space, unique: str, kubectl: Any) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    kubectl("apply", "-f", "-", input=manifest(custom(group, "w", spec={"size": 1, "color": "red"})))
    kubectl("apply", "-f", "-", input=manifest(custom(group, "w", spec={"size": 2})))
    assert space.get(f"{group}/v1/widgets", "w").ok()["spec"] == {"size": 2}


def test_apply_refuses_unknown_fields(space: Space, refused: Any) -> None:
    said = refused("apply", "-f", "-", input=manifest({**config("a"), "nonsense": 1}))
    assert 'strict decoding error: unknown field "nonsense"' in said
    assert not space.exists("configmaps", "a")


def test_server_side_apply_and_its_conflicts(space: Space, kubectl: Any, refused: Any) -> None:
    text = manifest(config("a", {"x": "1"}))
    assert kubectl("apply", "--server-side", "-f", "-", input=text) == "configmap/a serverside-applied\n"
    changed = manifest(config("a", {"x": "2"}))
    said = refused("apply", "--server-side", "--field-manager=other", "-f", "-", input=changed)
    assert 'conflict with "kubectl": .data.x' in said
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", input=changed)
    assert space.get("configmaps", "a").ok()["data"] == {"x": "2"}


def test_client_side_applied_objects_move_to_server_side(space: Space, kubectl: Any) -> None:
    kubectl("apply", "-f", "-", input=manifest(config("a", {"x": "1", "z": "1"})))
    kubectl("apply", "--server-side", "-f", "-", input=manifest(config("a", {"x": "1"})))
    assert space.get("configmaps", "a").ok()["data"] == {"x": "1"}


def test_dry_run_and_diff(space: Space, kubectl: Any) -> None:
    kubectl("apply", "-f", "-", input=manifest(config("a", {"x": "1"})))
    changed = manifest(config("a", {"x": "2"}), config("b"))
    said = kubectl("apply", "--dry-run=server", "-f", "-", input=changed)
    assert said == "configmap/a configured (server dry run)\nconfigmap/b created (server dry run)\n"
    done = space.server.kubectl("-n", space.namespace, "diff", "-f", "-", input=changed, check=False)
    assert done.returncode == 1, done.stderr
    assert '-  x: "1"' in done.stdout
    assert '+  x: "2"' in done.stdout
    assert space.get("configmaps", "a").ok()["data"] == {"x": "1"}
    assert not space.exists("configmaps", "b")
    same = space.server.kubectl("-n", space.namespace, "diff", "-f", "-", input=manifest(config("a", {"x": "1"})))
    assert same.stdout == ""


def test_apply_and_prune(space: Space, kubectl: Any, unique: str) -> None:
    both = manifest(config("a", labels={"set": unique}), config("b", labels={"set": unique}))
    kubectl("apply", "-f", "-", "--prune", "-l", f"set={unique}", "--prune-allowlist=core/v1/ConfigMap", input=both)
    one = manifest(config("a", labels={"set": unique}))
    said = kubectl(
        "apply", "-f", "-", "--prune", "-l", f"set={unique}", "--prune-allowlist=core/v1/ConfigMap", input=one
    )
    assert "configmap/b pruned" in said
    assert space.names("configmaps") == ["a"]


def test_create_from_the_command_line(space: Space, cluster: Space, unique: str, kubectl: Any) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "deployment", "d", "--image=example.com/app:1", "--replicas=2")
    kubectl("create", "job", "j", "--image=example.com/app:1")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080")
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "rb", "--role=r", "--user=alice")
    kubectl("create", "poddisruptionbudget", "pdb", "--selector=app=a", "--min-available=1")
    kubectl("create", "quota", "q", "--hard=pods=100", "--dry-run=client")
    kubectl("create", "priorityclass", unique, "--value=100")
    kubectl("delete", "priorityclass", unique)
    kubectl("create", "namespace", f"{unique}-ns")
    kubectl("delete", "namespace", f"{unique}-ns", "--wait=false")
    assert space.get("configmaps", "c").ok()["data"] == {"a": "b"}
    assert space.get("secrets", "s").ok()["data"] == {"a": "Yg=="}
    assert space.get("deployments", "d").ok()["spec"]["replicas"] == 2
    assert space.get("services", "svc").ok()["spec"]["ports"][0]["targetPort"] == 8080
    assert space.get("poddisruptionbudgets", "pdb").ok()["spec"]["minAvailable"] == 1
    for plural, name in (("serviceaccounts", "robot"), ("jobs", "j"), ("roles", "r"), ("rolebindings", "rb")):
        assert space.exists(plural, name), plural


def test_create_from_a_file_and_twice(kubectl: Any, refused: Any) -> None:
    assert kubectl("create", "-f", "-", input=manifest(config("a"))) == "configmap/a created\n"
    said = refused("create", "-f", "-", input=manifest(config("a")))
    assert 'Error from server (AlreadyExists): error when creating "STDIN": configmaps "a" already exists' in said


def test_create_a_token(space: Space, kubectl: Any) -> None:
    kubectl("create", "serviceaccount", "robot")
    assert kubectl("create", "token", "robot").count(".") == 2


def test_run_and_expose(space: Space, kubectl: Any) -> None:
    assert kubectl("run", "p", "--image=example.com/app:1", "--port=80", "--labels=app=x") == "pod/p created\n"
    assert kubectl("expose", "pod", "p", "--port=80") == "service/p exposed\n"
    assert space.get("services", "p").ok()["spec"]["selector"] == {"app": "x"}


def test_replace(space: Space, kubectl: Any, refused: Any) -> None:
    kubectl("create", "-f", "-", input=manifest(config("a")))
    assert kubectl("replace", "-f", "-", input=manifest(config("a", {"k": "new"}))) == "configmap/a replaced\n"
    assert space.get("configmaps", "a").ok()["data"] == {"k": "new"}
    assert "NotFound" in refused("replace", "-f", "-", input=manifest(config("b")))
    said = kubectl("replace", "--force", "-f", "-", input=manifest(config("a", {"k": "newer"})))
    assert "replaced" in said


def editor(directory: Path, script: str) -> dict[str, str]:
    path = directory / "editor.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"KUBE_EDITOR": str(path)}


def test_edit(space: Space, kubectl: Any, tmp_path: Path) -> None:
    space.create("configmaps", config("a")).ok(201)
    environ = editor(tmp_path, 'sed -i "s/k: v/k: edited/" "$1"')
    assert kubectl("edit", "cm", "a", environ=environ) == "configmap/a edited\n"
    assert space.get("configmaps", "a").ok()["data"] == {"k": "edited"}
    space.create("deployments", deployment("d")).ok(201)
    environ = editor(tmp_path, 'sed -i "s/replicas: 1/replicas: 3/" "$1"')
    assert kubectl("edit", "deployment", "d", environ=environ) == "deployment.apps/d edited\n"
    assert space.get("deployments", "d").ok()["spec"]["replicas"] == 3


def test_edit_of_nothing(space: Space, kubectl: Any, tmp_path: Path) -> None:
    space.create("configmaps", config("a")).ok(201)
    done = space.server.kubectl("-n", space.namespace, "edit", "cm", "a", environ=editor(tmp_path, "true"))
    assert "Edit cancelled, no changes made." in done.stdout + done.stderr


PATCHES = {
    "json": '[{"op": "replace", "path": "/data/k", "value": "new"}]',
    "merge": '{"data": {"k": "new"}}',
    "strategic": '{"data": {"k": "new"}}',
}


@pytest.mark.parametrize("type", PATCHES)
def test_patch(type: str, space: Space, kubectl: Any) -> None:
    space.create("configmaps", config("a")).ok(201)
    assert kubectl("patch", "cm", "a", "--type", type, "-p", PATCHES[type]) == "configmap/a patched\n"
    assert space.get("configmaps", "a").ok()["data"] == {"k": "new"}
    assert kubectl("patch", "cm", "a", "--type", type, "-p", PATCHES[type]) == "configmap/a patched (no change)\n"


def test_patch_of_subresources(space: Space, kubectl: Any) -> None:
    space.create("deployments", deployment("d")).ok(201)
    kubectl("patch", "deployment", "d", "--subresource=status", "--type=merge", "-p", '{"status": {"replicas": 2}}')
    kubectl("patch", "deployment", "d", "--subresource=scale", "--type=merge", "-p", '{"spec": {"replicas": 4}}')
    now = space.get("deployments", "d").ok()
    assert (now["status"]["replicas"], now["spec"]["replicas"]) == (2, 4)
    scale = json.loads(kubectl("get", "deployment", "d", "--subresource=scale", "-o", "json"))
    assert scale["kind"] == "Scale"


def test_label_and_annotate(space: Space, kubectl: Any, refused: Any) -> None:
    space.create("configmaps", config("a")).ok(201)
    assert kubectl("label", "cm", "a", "x=1") == "configmap/a labeled\n"
    assert "already has a value" in refused("label", "cm", "a", "x=2")
    kubectl("label", "cm", "a", "x=2", "--overwrite")
    kubectl("annotate", "cm", "a", "note=hello")
    meta = space.get("configmaps", "a").ok()["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({"x": "2"}, {"note": "hello"})
    assert kubectl("label", "cm", "a", "x-") == "configmap/a unlabeled\n"
    kubectl("label", "cm", "--all", "every=one")
    assert space.get("configmaps", "a").ok()["metadata"]["labels"] == {"every": "one"}


def test_taint_and_cordon(cluster: Space, unique: str, kubectl: Any) -> None:
    cluster.create("nodes", node(unique)).ok(201)
    assert kubectl("taint", "node", unique, "gpu=yes:NoSchedule") == f"node/{unique} tainted\n"
    assert cluster.get("nodes", unique).ok()["spec"]["taints"] == [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    ]
    assert kubectl("taint", "node", unique, "gpu-") == f"node/{unique} untainted\n"
    assert kubectl("cordon", unique) == f"node/{unique} cordoned\n"
    assert cluster.get("nodes", unique).ok()["spec"]["unschedulable"] is True
    assert kubectl("uncordon", unique) == f"node/{unique} uncordoned\n"
    assert "unschedulable" not in cluster.get("nodes", unique).ok()["spec"]


@pytest.fixture
def occupied(space: Space, cluster: Space, unique: str) -> str:
    """A node with two ready pods that a budget keeps together."""
    cluster.create("nodes", node(unique)).ok(201)
    for name in ("p", "q"):
        space.create("pods", pod(name, labels={"app": "a"})).ok(201)
        space.create("pods", binding(name, unique), name=name, sub="binding").ok(201)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        space.patch("pods", name, {"status": ready}, "strategic", "status").ok(200)
    return unique


def test_drain(space: Space, cluster: Space, occupied: str, kubectl: Any, refused: Any) -> None:
    said = refused("drain", occupied)
    assert "cannot delete Pods that declare no controller (use --force to override)" in said.replace(
        "cannot delete cannot", "cannot"
    )
    said = kubectl("drain", occupied, "--force", "--grace-period=0", "--disable-eviction")
    assert f"node/{occupied} drained" in said
    assert space.names("pods") == []
    assert cluster.get("nodes", occupied).ok()["spec"]["unschedulable"] is True


def test_drain_honours_budgets(space: Space, occupied: str, refused: Any, kubectl: Any) -> None:
    space.create("poddisruptionbudgets", budget("b", minAvailable=2)).ok(201)

    def known() -> bool:
        status = space.get("poddisruptionbudgets", "b").ok().get("status", {})
        return status.get("currentHealthy") == 2

    eventually(known)
    said = refused("drain", occupied, "--force", "--grace-period=0", "--timeout=2s")
    assert "Cannot evict pod as it would violate the pod's disruption budget" in said
    assert space.names("pods") == ["p", "q"]
    kubectl("drain", occupied, "--force", "--grace-period=0", "--disable-eviction")
    assert space.names("pods") == []


def test_scale(space: Space, cluster: Space, unique: str, kubectl: Any, refused: Any) -> None:
    space.create("deployments", deployment("d", replicas=1)).ok(201)
    assert kubectl("scale", "deployment", "d", "--replicas=3") == "deployment.apps/d scaled\n"
    assert space.get("deployments", "d").ok()["spec"]["replicas"] == 3
    assert (
        "expected replicas to be 1"
        in refused("scale", "deployment", "d", "--current-replicas=1", "--replicas=5").lower()
    )
    group = f"{unique}.example.com"
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.seen"}
    cluster.establish(crd(group, subresources={"status": {}, "scale": scale}))
    space.create(f"{group}/v1/widgets", custom(group, "w", spec={"size": 1})).ok(201)
    kubectl("scale", f"widgets.{group}", "w", "--replicas=4")
    assert space.get(f"{group}/v1/widgets", "w").ok()["spec"] == {"size": 4}


def test_autoscale_and_set(space: Space, kubectl: Any) -> None:
    space.create("deployments", deployment("d")).ok(201)
    kubectl("autoscale", "deployment", "d", "--min=1", "--max=5", "--cpu=80%")
    assert space.get("horizontalpodautoscalers", "d").ok()["spec"]["maxReplicas"] == 5
    kubectl("set", "image", "deployment/d", "main=example.com/app:2")
    kubectl("set", "env", "deployment/d", "A=B")
    (container,) = space.get("deployments", "d").ok()["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == ("example.com/app:2", [{"name": "A", "value": "B"}])


def test_rollout(space: Space, kubectl: Any) -> None:
    space.create("deployments", deployment("d", replicas=1)).ok(201)
    assert kubectl("rollout", "pause", "deployment/d") == "deployment.apps/d paused\n"
    assert kubectl("rollout", "resume", "deployment/d") == "deployment.apps/d resumed\n"
    kubectl("rollout", "restart", "deployment/d")
    annotations = space.get("deployments", "d").ok()["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations
    done = {"observedGeneration": 9, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    space.patch("deployments", "d", {"status": done}, sub="status").ok(200)
    assert 'deployment "d" successfully rolled out' in kubectl("rollout", "status", "deployment/d", "--timeout=120s")


def test_delete(space: Space, kubectl: Any, refused: Any) -> None:
    for name in ("a", "b", "c", "d"):
        space.create("configmaps", config(name, labels={"even": str(name in "bd")})).ok(201)
    assert kubectl("delete", "cm", "a").startswith('configmap "a" deleted')
    kubectl("delete", "cm", "-l", "even=True")
    assert space.names("configmaps") == ["c"]
    kubectl("delete", "cm", "--all")
    assert space.names("configmaps") == []
    assert "NotFound" in refused("delete", "cm", "a")
    assert kubectl("delete", "cm", "a", "--ignore-not-found") == ""


def test_delete_waits_for_finalizers(space: Space, kubectl: Any, refused: Any) -> None:
    space.create("configmaps", config("a", finalizers=["example.com/hold"])).ok(201)
    assert "timed out waiting for the condition" in refused("delete", "cm", "a", "--timeout=1s")
    assert "deletionTimestamp" in space.get("configmaps", "a").ok()["metadata"]
    kubectl("patch", "cm", "a", "--type=json", "-p", '[{"op": "remove", "path": "/metadata/finalizers"}]')
    assert not space.exists("configmaps", "a")


def test_delete_a_pod_now(space: Space, occupied: str, kubectl: Any) -> None:
    kubectl("delete", "pod", "p", "--wait=false")
    assert space.get("pods", "p").ok()["metadata"]["deletionGracePeriodSeconds"] == 30
    kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert not space.exists("pods", "p")


@pytest.mark.parametrize(("cascade", "is_kept"), [("background", False), ("foreground", False), ("orphan", True)])
def test_delete_cascades(cascade: str, is_kept: bool, space: Space, kubectl: Any) -> None:
    owner = space.create("configmaps", config("owner")).ok(201)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    space.create("configmaps", config("child", ownerReferences=[reference])).ok(201)
    kubectl("delete", "cm", "owner", f"--cascade={cascade}")
    space.gone("configmaps", "owner")
    if is_kept:
        assert space.exists("configmaps", "child")
    else:
        space.gone("configmaps", "child")


def test_jobs_from_kubectl(space: Space, kubectl: Any) -> None:
    space.create("jobs", job("j")).ok(201)
    printed = kubectl("get", "jobs")
    assert printed.split()[:4] == ["NAME", "STATUS", "COMPLETIONS", "DURATION"]
    kubectl("delete", "job", "j")


def test_a_whole_namespace_is_taken_down(cluster: Space, unique: str, kubectl: Any) -> None:
    name = f"{unique}-gone"
    kubectl("create", "namespace", name)
    Space(cluster.server, name).create("configmaps", config("a")).ok(201)
    kubectl("delete", "namespace", name, "--timeout=150s", timeout=180)
    assert not cluster.exists("namespaces", name)


def test_definitions_by_kubectl(space: Space, cluster: Space, unique: str, kubectl: Any) -> None:
    group = f"{unique}.example.com"
    name = f"crd/widgets.{group}"
    kubectl("apply", "-f", "-", input=manifest(crd(group)))
    assert kubectl("wait", "--for=condition=Established", name, "--timeout=120s").endswith("condition met\n")
    eventually(
        lambda: space.server.kubectl("-n", space.namespace, "get", f"widgets.{group}", check=False).returncode == 0
    )
    kubectl("apply", "-f", "-", input=manifest(custom(group, "a", spec={"size": 1})))
    kubectl("delete", name)
    assert not cluster.exists("customresourcedefinitions", f"widgets.{group}")
