"""Who is asking: what loopback without credentials is trusted with."""

from __future__ import annotations

import json
import random

import pytest

from kube_apimachinery.system_clock import SystemClock
from kube_embedded.base.http import HttpRequest
from kube_embedded.server.api_server import ApiServer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"host": "127.0.0.1:6443"}, 200, id="meant for us"),
        pytest.param({"host": "localhost:6443"}, 200, id="meant for us by name"),
        pytest.param({"host": "[::1]:6443"}, 200, id="meant for us over IPv6"),
        pytest.param({"host": "127.0.0.2:6443"}, 200, id="another address of loopback"),
        pytest.param({"host": "localhost"}, 200, id="no port"),
        pytest.param({}, 200, id="no host at all"),
        pytest.param({"host": "127.0.0.1:6443", "origin": "https://elsewhere.example"}, 403, id="from a page"),
        pytest.param({"host": "elsewhere.example:6443"}, 403, id="a name that was made to point here"),
    ],
)
async def test_a_page_in_a_browser_is_nobody_even_over_loopback(headers: dict[str, str], status: int) -> None:
    server = ApiServer(SystemClock(), random.Random(1))
    await server.start()
    try:
        reply = await server.handle(HttpRequest("GET", "/api/v1/secrets", headers=headers))
        assert reply.status == status
    finally:
        await server.stop()


async def test_an_object_that_etcd_would_not_take_is_refused_and_not_stored() -> None:
    server = ApiServer(SystemClock(), random.Random(1))
    await server.start()
    try:
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["x" * 200]}
        role = {"metadata": {"name": "a"}, "rules": [rule] * 8000}
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        reply = await server.handle(HttpRequest("POST", path, body=json.dumps(role).encode()))
        assert (reply.status, json.loads(reply.body)["message"]) == (500, "etcdserver: request is too large")
        assert (await server.handle(HttpRequest("GET", f"{path}/a"))).status == 404
    finally:
        await server.stop()
