"""kubectl: get in all its forms, describe, explain, events, discovery."""

from __future__ import annotations

import json
import re
import subprocess
import time
from typing import Any

import pytest
import yaml

from cluster_kit.objects import binding, config, crd, custom, deployment, event, node, pod, service
from cluster_kit.server import eventually
from cluster_kit.space import Space


@pytest.fixture
def furnished(space: Space) -> Space:
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        space.create("configmaps", config(name, {"n": str(ord(name))}, labels={"color": color})).ok(201)
    space.create("pods", pod("p", labels={"app": "x"})).ok(201)
    return space


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.strip().splitlines()]


def test_get_prints_a_table(furnished: Space, kubectl: Any) -> None:
    header, *lines = rows(kubectl("get", "configmaps"))
    assert header == ["NAME", "DATA", "AGE"]
    assert [line[:2] for line in lines] == [["a", "1"], ["b", "1"], ["c", "1"]]
    assert rows(kubectl("get", "pods"))[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows(kubectl("get", "po", "p"))[1][:4] == ["p", "0/1", "Pending", "0"]


def test_get_of_nothing(space: Space, refused: Any) -> None:
    said = space.server.kubectl("-n", space.namespace, "get", "pods")
    assert (said.stdout, said.stderr.strip()) == ("", f"No resources found in {space.namespace} namespace.")
    assert refused("get", "pods", "absent").strip() == 'Error from server (NotFound): pods "absent" not found'
    assert 'the server doesn\'t have a resource type "nonsense"' in refused("get", "nonsense")


def test_get_wide_and_labels(furnished: Space, kubectl: Any) -> None:
    assert "NODE" in kubectl("get", "pods", "-o", "wide")
    assert "app=x" in kubectl("get", "pods", "--show-labels")
    assert rows(kubectl("get", "cm", "-L", "color"))[0][-1] == "COLOR"


def test_get_as_json_and_yaml(furnished: Space, kubectl: Any) -> None:
    as_json = json.loads(kubectl("get", "cm", "a", "-o", "json"))
    as_yaml = yaml.safe_load(kubectl("get", "cm", "a", "-o", "yaml"))
    assert as_json["data"] == as_yaml["data"] == {"n": "97"}
    listed = json.loads(kubectl("get", "cm", "-o", "json"))
    assert (listed["kind"], len(listed["items"])) == ("List", 3)
    assert listed["items"][0]["kind"] == "ConfigMap"


def test_get_names_paths_and_columns(furnished: Space, kubectl: Any) -> None:
    assert kubectl("get", "cm", "-o", "name").split() == ["configmap/a", "configmap/b", "configmap/c"]
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.data.n}") == "97"
    assert kubectl("get", "cm", "-o", "jsonpath={.items[*].metadata.name}") == "a b c"
    columns = kubectl("get", "cm", "-o", "custom-columns=NAME:.metadata.name,N:.data.n")
    assert rows(columns) == [["NAME", "N"], ["a", "97"], ["b", "98"], ["c", "99"]]
    assert kubectl("get", "cm", "a", "-o", "go-template={{.data.n}}") == "97"


def test_get_by_selector(furnished: Space, kubectl: Any) -> None:
    assert kubectl("get", "cm", "-l", "color=red", "-o", "name").split() == ["configmap/a", "configmap/c"]
    assert kubectl("get", "cm", "-l", "color notin (red)", "-o", "name").split() == ["configmap/b"]
    assert kubectl("get", "cm", "--field-selector", "metadata.name!=b", "-o", "name").split() == [
        "configmap/a",
        "configmap/c",
    ]
    assert kubectl("get", "pods", "--field-selector", "status.phase=Running", "-o", "name") == ""


def test_get_sorted(furnished: Space, kubectl: Any) -> None:
    lines = rows(kubectl("get", "cm", "--sort-by", "{.metadata.labels.color}"))[1:]
    assert lines[0][0] == "b"
    assert [line[0] for line in rows(kubectl("get", "cm", "--sort-by=.metadata.name", "--no-headers"))] == [
        "a",
        "b",
        "c",
    ]


def test_get_across_kinds_and_namespaces(furnished: Space, kubectl: Any) -> None:
    furnished.create("services", service("s")).ok(201)
    everything = kubectl("get", "all")
    assert "pod/p" in everything
    assert "service/s" in everything
    assert "configmap/a" not in everything
    both = kubectl("get", "cm/a", "pod/p", "-o", "name")
    assert both.split() == ["configmap/a", "pod/p"]
    assert furnished.namespace in kubectl("get", "cm", "-A")


def test_get_in_chunks(furnished: Space, kubectl: Any) -> None:
    assert len(rows(kubectl("get", "cm", "--chunk-size=1", "--no-headers"))) == 3


def test_get_raw(furnished: Space, kubectl: Any) -> None:
    listed = json.loads(kubectl("get", "--raw", f"/api/v1/namespaces/{furnished.namespace}/configmaps"))
    assert len(listed["items"]) == 3


def test_get_and_watch(space: Space) -> None:
    command = space.server.kubectl_command("-n", space.namespace, "get", "cm", "-w", "--no-headers")
    space.create("configmaps", config("before")).ok(201)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"HOME": str(space.server.scratch)}
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[0] == "before"
        space.create("configmaps", config("after")).ok(201)
        assert watching.stdout.readline().split()[:2] == ["after", "1"]
        space.patch("configmaps", "after", {"data": {"more": "x"}}).ok(200)
        assert watching.stdout.readline().split()[:2] == ["after", "2"]
        watching.terminate()


def test_describe_a_pod_shows_its_events(furnished: Space, kubectl: Any) -> None:
    uid = furnished.get("pods", "p").ok()["metadata"]["uid"]
    about = {"kind": "Pod", "namespace": furnished.namespace, "name": "p", "uid": uid, "apiVersion": "v1"}
    body = event("e", furnished.namespace, involvedObject=about, count=1, lastTimestamp="2026-01-01T00:00:00Z")
    furnished.create("events", body).ok(201)
    printed = kubectl("describe", "pod", "p")
    assert re.search(r"^Name: +p$", printed, re.M)
    assert re.search(r"^ +Image: +example.com/app:1$", printed, re.M)
    assert "it started" in printed


def test_describe_other_kinds(furnished: Space, cluster: Space, unique: str, kubectl: Any) -> None:
    cluster.create("nodes", node(unique, status={"capacity": {"cpu": "8"}})).ok(201)
    furnished.create("pods", binding("p", unique), name="p", sub="binding").ok(201)
    printed = kubectl("describe", "node", unique)
    assert re.search(rf"^Name: +{unique}$", printed, re.M)
    assert re.search(r"^Non-terminated Pods: +\(1 in total\)$", printed, re.M)
    assert "n:\n----\n97" in kubectl("describe", "cm", "a")
    furnished.create("deployments", deployment("d")).ok(201)
    assert re.search(r"^StrategyType: +RollingUpdate$", kubectl("describe", "deployment", "d"), re.M)
    furnished.create("services", service("s")).ok(201)
    assert re.search(r"^Selector: +app=a$", kubectl("describe", "service", "s"), re.M)


def test_describe_a_custom_object(space: Space, cluster: Space, unique: str, kubectl: Any) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "w", spec={"size": 7})).ok(201)
    printed = kubectl("describe", f"widgets.{group}", "w")
    assert "Size:  7" in printed


def test_explain(space: Space, cluster: Space, unique: str, kubectl: Any) -> None:
    printed = kubectl("explain", "pod.spec.containers")
    assert "FIELD: containers <[]Container>" in printed
    assert "image\t<string>" in printed
    assert "replicas\t<integer>" in kubectl("explain", "deployment.spec")
    group = f"{unique}.example.com"
    schema = {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "description": "How large it is."}}}
    }
    cluster.establish(crd(group, schema))

    def explained() -> bool:
        asked = ("explain", "widgets.spec.size", f"--api-version={group}/v1")
        return "How large it is." in space.server.kubectl(*asked, check=False).stdout

    eventually(explained, "the new kind is explained", 20)
    assert "finalizers\t<[]string>" in kubectl("explain", "configmap", "--recursive")


def test_discovery(kubectl: Any) -> None:
    resources = kubectl("api-resources")
    line = next(line for line in resources.splitlines() if line.startswith("deployments "))
    assert line.split() == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert "configmaps" in kubectl("api-resources", "--namespaced=true", "-o", "name").split()
    assert "nodes" not in kubectl("api-resources", "--namespaced=true", "-o", "name").split()
    assert {"v1", "apps/v1", "batch/v1", "policy/v1"} <= set(kubectl("api-versions").split())


def test_a_fresh_custom_kind_is_found_at_once(space: Space, cluster: Space, unique: str, kubectl: Any) -> None:
    kubectl("get", "cm")
    group = f"{unique}.example.com"
    definition = crd(group, additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}])
    definition["spec"]["names"]["shortNames"] = [f"w{unique}"]
    cluster.establish(definition)
    space.create(f"{group}/v1/widgets", custom(group, "a", spec={"size": 3})).ok(201)

    def printed() -> list[list[str]]:
        return rows(space.server.kubectl("-n", space.namespace, "get", f"w{unique}", check=False).stdout)

    eventually(lambda: printed() == [["NAME", "SIZE"], ["a", "3"]])


def test_events(space: Space, kubectl: Any) -> None:
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": space.namespace, "name": "p"}
    body = event("e", space.namespace, involvedObject=about, count=2, lastTimestamp="2026-01-01T00:00:00Z")
    space.create("events", body).ok(201)
    printed = kubectl("events")
    assert rows(printed)[0][:2] == ["LAST", "SEEN"]
    assert "Started" in printed
    assert "it started" in kubectl("events", "--for", "pod/p")
    assert "Started" in kubectl("get", "events")


def test_versions_and_cluster(space: Space, kubectl: Any) -> None:
    assert "Server Version: v1.36." in kubectl("version")
    assert "is running at" in kubectl("cluster-info")
    assert space.server.url in kubectl("config", "view")


def test_logs_of_a_pod_that_sits_nowhere_are_empty(space: Space, kubectl: Any) -> None:
    space.create("pods", pod("p")).ok(201)
    assert kubectl("logs", "p") == ""


def test_wait(space: Space, kubectl: Any, refused: Any) -> None:
    space.create("pods", pod("p")).ok(201)
    assert "timed out waiting" in refused("wait", "pod/p", "--for=condition=Ready", "--timeout=1s")
    command = space.server.kubectl_command(
        "-n", space.namespace, "wait", "pod/p", "--for=condition=Ready", "--timeout=120s"
    )
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"HOME": str(space.server.scratch)}
    ) as waiting:
        time.sleep(0.3)
        space.patch(
            "pods", "p", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "strategic", "status"
        ).ok()
        out, _ = waiting.communicate(timeout=120)
    assert out == "pod/p condition met\n"
    assert kubectl("wait", "pod/p", "--for=jsonpath={.status.phase}=Pending") == "pod/p condition met\n"


def test_wait_for_deletion(space: Space) -> None:
    space.create("configmaps", config("a")).ok(201)
    command = space.server.kubectl_command("-n", space.namespace, "wait", "cm/a", "--for=delete", "--timeout=120s")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"HOME": str(space.server.scratch)}
    ) as waiting:
        time.sleep(0.3)
        space.delete("configmaps", "a").ok(200)
        out, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 0
    assert out in ("configmap/a condition met\n", "")


def test_who_may_what(space: Space, kubectl: Any) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    denied = space.server.kubectl("-n", space.namespace, "auth", "can-i", "create", "pods", user="bob", check=False)
    assert (denied.stdout, denied.returncode) == ("no\n", 1)
    assert "selfsubjectaccessreviews.authorization.k8s.io" in kubectl("auth", "can-i", "--list")
    whoami = kubectl("auth", "whoami")
    assert "admin" in whoami
    assert "system:masters" in whoami


def test_forbidden_is_said_plainly(space: Space) -> None:
    said = space.server.kubectl("-n", space.namespace, "get", "pods", user="bob", check=False)
    assert said.returncode == 1
    assert said.stderr.startswith(
        'Error from server (Forbidden): pods is forbidden: User "bob" cannot list resource "pods"'
    )
