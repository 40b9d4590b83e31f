"""Binding by the bytes: whatever order the stored fields have, a bound pod is the same pod with a node."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_apimachinery.system_clock import SystemClock
from kube_embedded.base.http import HttpRequest
from kube_embedded.base.identity import ADMIN
from kube_embedded.server.api_server import ApiServer

PODS = "/api/v1/namespaces/default/pods"
SPEC = {"containers": [{"name": "c", "image": "i", "args": ['},"status":{', "x"]}]}
METADATA = {"name": "p", "annotations": {"a": '},"status":{}'}}
STATUS = {"phase": "Running"}
Json = dict[str, Any]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    one = ApiServer(SystemClock(), random.Random(1))
    await one.start()
    yield one
    await one.stop()


async def send(server: ApiServer, method: str, path: str, obj: Any = None, query: str = "") -> tuple[int, Json]:
    body = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
    reply = await server.handle(HttpRequest(method, path, query, body=body, identity=ADMIN))
    return reply.status, json.loads(reply.body)


def binding(node: str = "n", **metadata: Any) -> Json:
    target = {"kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", **metadata}, "target": target}


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": METADATA, "spec": SPEC},
        {"spec": SPEC, "metadata": METADATA},
        {"status": STATUS, "metadata": METADATA, "spec": SPEC},
        {"metadata": METADATA, "status": STATUS, "spec": SPEC},
    ],
    ids=["usual", "spec first", "status first", "status between"],
)
@pytest.mark.parametrize("zone", [{}, {"topology.kubernetes.io/zone": "z"}], ids=["plain node", "node with a zone"])
async def test_a_bound_pod_differs_in_its_node_alone(server: ApiServer, pod: Json, zone: Json) -> None:
    await send(server, "POST", "/api/v1/nodes", {"metadata": {"name": "n", "labels": zone}})
    _, before = await send(server, "POST", PODS, pod)
    status, _ = await send(server, "POST", f"{PODS}/p/binding", binding(annotations={"b": "c"} if zone else {}))
    _, after = await send(server, "GET", f"{PODS}/p")
    assert status == 201
    assert int(after["metadata"].pop("resourceVersion")) > int(before["metadata"].pop("resourceVersion"))
    condition = after["status"].pop("conditions")[-1]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert after["spec"].pop("nodeName") == "n"
    if zone:
        assert after["metadata"].pop("labels") == zone
        assert after["metadata"]["annotations"].pop("b") == "c"
    assert after == before


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(binding(uid="another"), 409, id="another uid"),
        pytest.param(binding(resourceVersion="1"), 409, id="another version"),
        pytest.param(binding(namespace="other"), 400, id="another namespace"),
        pytest.param({**binding(), "metadata": {"name": "q"}}, 400, id="another pod"),
        pytest.param(binding(node=""), 500, id="no node"),
        pytest.param({**binding(), "target": {"kind": "Pod", "name": "n"}}, 500, id="no kind of node"),
        pytest.param({**binding(), "kind": "Pod"}, 400, id="another kind"),
        pytest.param(json.dumps(binding()).encode()[:-1], 400, id="broken JSON"),
        pytest.param(binding(uid="", resourceVersion="", annotations={}), 201, id="empty"),
        pytest.param(binding(namespace="default", labels={"a": "b"}), 201, id="more than is looked at"),
    ],
)
async def test_only_what_is_about_this_pod_binds_it(server: ApiServer, sent: Any, status: int) -> None:
    await send(server, "POST", PODS, {"metadata": METADATA, "spec": SPEC})
    found, _ = await send(server, "POST", f"{PODS}/p/binding", sent)
    _, pod = await send(server, "GET", f"{PODS}/p")
    assert (found, "nodeName" in pod["spec"]) == (status, status == 201)


async def test_pods_that_are_bound_in_turn_have_times_and_conditions_of_their_own(server: ApiServer) -> None:
    for name in ("p", "q"):
        await send(server, "POST", PODS, {"metadata": {"name": name}, "spec": SPEC})
    ready = {"metadata": {"name": "q"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    _, q = await send(server, "GET", f"{PODS}/q")
    await send(server, "PUT", f"{PODS}/q/status", {**q, "status": {**q["status"], **ready["status"]}})  # type: ignore[dict-item]
    for name in ("p", "q"):
        await send(server, "POST", f"{PODS}/{name}/binding", {**binding(), "metadata": {"name": name}})
    kinds = []
    for name in ("p", "q"):
        _, pod = await send(server, "GET", f"{PODS}/{name}")
        kinds.append([one["type"] for one in pod["status"]["conditions"]])
    assert kinds == [["PodScheduled"], ["Ready", "PodScheduled"]]
