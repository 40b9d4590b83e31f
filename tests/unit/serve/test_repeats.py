"""Pods like others before them: made in a short way, and in nothing else different."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_apimachinery.admission import AdmissionRequest, Lookup, Verdict
from kube_embedded.base.http import HttpReply, HttpRequest
from kube_embedded.base.identity import ADMIN, Identity
from kube_embedded.requests import pod_template_cache
from kube_embedded.server import routing
from kube_embedded.server.api_server import ApiServer

PODS = "/api/v1/namespaces/default/pods"
Json = dict[str, Any]


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.time_s = 1_700_000_000.0

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s


class Client:
    """Speaks to a server of its own."""

    def __init__(self, server: ApiServer, clock: Clock) -> None:
        self.server, self.clock = server, clock

    async def send(self, method: str, path: str, obj: Any = None, query: str = "", **more: Any) -> HttpReply:
        body = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        return await self.server.handle(HttpRequest(method, path, query, body=body, **{"identity": ADMIN, **more}))

    async def create(self, obj: Any, query: str = "", path: str = PODS, **more: Any) -> Json:
        reply = await self.send("POST", path, obj, query, **more)
        assert reply.status == 201, reply.body
        found: Json = json.loads(reply.body)
        return found

    async def get(self, name: str) -> Json:
        found: Json = json.loads((await self.send("GET", f"{PODS}/{name}")).body)
        return found

    def forget(self) -> None:
        self.server._router.forget()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    one = _client()
    await one.server.start()
    yield one
    await one.server.stop()


class Everything(set[int]):
    def __contains__(self, value: object) -> bool:
        return True


def _client(**options: Any) -> Client:
    """A server that keeps a spec when it comes for the first time."""
    clock = Clock()
    server = ApiServer(clock, random.Random(7), **options)
    server._router._templates._seen = Everything()
    return Client(server, clock)


def pod(name: str, **spec: Any) -> Json:
    env = [{"name": "RANK", "value": name}, {"name": "MODE", "value": "train"}]
    container = {"name": "main", "image": "example.com/model:1", "env": env, "resources": {"limits": {"cpu": "1.50"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"hostname": name, "containers": [container], **spec},
    }


def meta(obj: Json, **fields: Any) -> Json:
    return {**obj, "metadata": {**obj["metadata"], **fields}}


@pytest.fixture
def only_short(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it, and from then on only pods that are known can be created."""

    async def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the long way was taken")

    return lambda: monkeypatch.setattr(routing, "create", refuse)


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1", "controller": True}
REPEATS = {
    "another name": [pod("a"), pod("b")],
    "labels and annotations": [meta(pod("a")), meta(pod("b"), labels={"x": "y", "app": "b"}, annotations={"n": "1"})],
    "no labels": [pod("a"), {**pod("b"), "metadata": {"name": "b"}}],
    "owners and finalizers": [
        pod("a"),
        meta(pod("b"), ownerReferences=[OWNER], finalizers=["example.com/keep"]),
        meta(pod("c"), ownerReferences=[{**OWNER, "uid": "u-2"}], finalizers=["example.com/other"]),
    ],
    "metadata that is the server's": [
        pod("a"),
        meta(
            pod("b"), uid="mine", creationTimestamp=None, generation=9, selfLink="x", managedFields=[{"manager": "m"}]
        ),
    ],
    "a drawn name": [pod("a"), {**pod("b"), "metadata": {"generateName": "some-"}}],
    "scheduling gates": [pod(name, schedulingGates=[{"name": "example.com/wait"}]) for name in "ab"],
    "JSON in a variable": [
        pod(name, initContainers=[{"name": "i", "image": "i", "env": [{"name": "C", "value": '{"a": "b"}'}]}])
        for name in "ab"
    ],
    "text that is not ASCII": [pod(name, initContainers=[{"name": "i", "image": "i", "args": ["ä"]}]) for name in "ab"],
    "values elsewhere": [
        pod(name, tolerations=[{"key": "k", "operator": "Equal", "effect": "NoSchedule", "value": name}])
        for name in "ab"
    ],
    "refused metadata": [
        pod("a"),
        meta(pod("b"), labels={"-": "?"}),
        meta(pod("c"), name="C"),
        meta(pod("d"), name=""),
    ],
    "a wrong namespace": [pod("a"), meta(pod("b"), namespace="other"), meta(pod("c"), namespace="default")],
    "a version": [pod("a"), meta(pod("b"), resourceVersion="5"), meta(pod("c"), resourceVersion="0")],
    "wrong types": [pod("a"), meta(pod("b"), labels={"a": 1}), meta(pod("c"), labels=[]), meta(pod("d"), name=None)],
    "a taken name": [pod("a"), pod("b"), pod("b"), pod("a")],
    "a subdomain": [pod(name, subdomain=sub) for name, sub in (("a", "x"), ("b", "y"), ("c", "-"), ("d", "X"))],
    "a bad host name": [pod("a"), pod("b", hostname="not_one"), pod("c", hostname="x" * 64), pod("d", hostname="")],
    "a variable without value": [
        pod("a"),
        json.dumps(pod("b")).replace('"value": "b"', '"value": ""').encode(),
        json.dumps(pod("c")).replace('"value": "c"', '"value": null').encode(),
        json.dumps(pod("d")).replace('"value": "d"', '"value": 4').encode(),
        json.dumps(pod("e")).replace('"value": "e"', '"value": "\\u0041\\"\\\\"').encode(),
        json.dumps(pod("f")).replace('"value": "f"', '"value": "\xff"').encode("latin-1"),
    ],
    "a variable twice": [
        json.dumps(pod(name)).replace("MODE", "RANK").replace("train", value).encode()
        for name, value in (("a", "$(RANK)/x"), ("b", "hides"))
    ],
    "another kind": [pod("a"), {**pod("b"), "kind": "Node"}, {**pod("c"), "apiVersion": "v2"}],
    "more than a pod has": [pod("a"), {**pod("b"), "more": 1}, {**pod("c"), "status": {"phase": "Running"}}],
    "broken JSON": [pod("a"), json.dumps(pod("b")).encode()[:-1], b"[]", b"null", b""],
    "a long name and one with a dot": [pod("a"), meta(pod("b"), name="b.c"), meta(pod("c"), name="c" * 64)],
    "an old annotation": [
        pod("a"),
        meta(pod("b"), annotations={"scheduler.alpha.kubernetes.io/critical-pod": ""}),
        meta(pod("c"), annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
    ],
    "an unknown field": [pod(name, unknown=1) for name in "ab"],
    "an unknown field of metadata": [pod("a"), meta(pod("b"), unknown=1)],
    "a key twice": [
        pod("a"),
        json.dumps(pod("b")).replace('"app": "a"', '"app": "a", "app": "c"').encode(),
        json.dumps(pod("c")).replace('"kind":', '"kind": "Pod", "kind":').encode(),
    ],
}


@pytest.mark.parametrize("query", ["", "fieldValidation=Strict", "fieldValidation=Ignore", "dryRun=All", "pretty=true"])
@pytest.mark.parametrize("sent", REPEATS.values(), ids=REPEATS.keys())
async def test_a_repeat_is_answered_as_if_it_were_the_first(sent: list[Any], query: str) -> None:
    remembering, forgetful = _client(), _client()
    for one in (remembering, forgetful):
        await one.server.start()
    await remembering.create(pod("first"))
    await forgetful.create(pod("first"))
    for obj in sent:
        forgetful.forget()
        wanted = await forgetful.send("POST", PODS, copy.deepcopy(obj), query)
        assert await remembering.send("POST", PODS, copy.deepcopy(obj), query) == wanted
    stored = [list(one.server.kernel.store.collection("/pods").after(None)) for one in (remembering, forgetful)]
    assert stored[0] == stored[1]
    for one in (remembering, forgetful):
        await one.server.stop()


async def test_values_stay_where_they_are_when_the_server_puts_fields_in_order(client: Client) -> None:
    bodies = []
    for name in "ab":
        init = {"name": "i", "image": "i", "env": [{"name": "X", "value": "a"}], "resources": {"limits": {"cpu": 1.5}}}
        env = [{"name": "Y", "value": name}]
        bodies.append(
            pod(name, hostname="a", containers=[{"name": "m", "image": "i", "env": env}], initContainers=[init])
        )
    made = [await client.create(body) for body in bodies]
    assert [one["spec"]["containers"][0]["env"][0]["value"] for one in made] == ["a", "b"]
    assert [one["spec"]["initContainers"][0]["env"][0]["value"] for one in made] == ["a", "a"]


@pytest.mark.parametrize(
    "sent",
    [pod("b"), meta(pod("b"), annotations={"a": "b"}), {**pod("b"), "metadata": {"generateName": "x-"}}],
    ids=["as it was", "annotated", "without a name"],
)
async def test_pods_that_differ_in_rank_and_metadata_are_repeats(client: Client, only_short: Any, sent: Json) -> None:
    await client.create(pod("a"))
    only_short()
    made = await client.create(sent)
    assert (made["spec"]["hostname"], made["spec"]["containers"][0]["env"][0]["value"]) == ("b", "b")


async def test_a_change_of_one_pod_reaches_no_other(client: Client, only_short: Any) -> None:
    await client.create(pod("a"))
    only_short()
    before = await client.create(pod("b"))
    tolerations = [*before["spec"]["tolerations"], {"key": "more", "operator": "Exists"}]
    patch = {"metadata": {"labels": {"new": "1"}}, "spec": {"tolerations": tolerations}}
    headers = {"content-type": "application/merge-patch+json"}
    for name in "ab":
        changed = await client.send("PATCH", f"{PODS}/{name}", patch, headers=headers)
        assert changed.status == 200
    target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}, "apiVersion": "v1", "kind": "Binding"}
    assert (await client.send("POST", f"{PODS}/a/binding", target)).status == 201
    after = await client.create(pod("c"))
    assert after["spec"]["tolerations"] == before["spec"]["tolerations"]
    assert "nodeName" not in after["spec"] and "new" not in after["metadata"]["labels"]
    assert after["status"] == before["status"]
    record = client.server.kernel.store.get("/pods", "default", "c")
    assert record is not None and record.fields["spec.nodeName"] == ""


async def test_every_writer_owns_what_it_created(client: Client) -> None:
    first = await client.create(pod("a"), "fieldManager=one")
    second = await client.create(meta(pod("b"), labels={"other": "x"}), "fieldManager=two")
    third = await client.create(pod("c"), headers={"user-agent": "three/1.0"})
    entries = [made["metadata"]["managedFields"] for made in (first, second, third)]
    assert [[one["manager"] for one in each] for each in entries] == [["one"], ["two"], ["three"]]
    assert list(entries[0][0]["fieldsV1"]["f:metadata"]["f:labels"]) == [".", "f:app"]
    assert list(entries[1][0]["fieldsV1"]["f:metadata"]["f:labels"]) == [".", "f:other"]
    assert entries[0][0]["fieldsV1"]["f:spec"] == entries[2][0]["fieldsV1"]["f:spec"]


async def test_times_and_uids_are_those_of_each_pod(client: Client) -> None:
    gates = [{"name": "example.com/wait"}]
    first = await client.create(pod("a", schedulingGates=gates))
    client.clock.time_s += 60
    second = await client.create(pod("b", schedulingGates=gates))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    for made, minute in ((first, "13"), (second, "14")):
        times = made["metadata"]["creationTimestamp"], made["status"]["conditions"][0]["lastTransitionTime"]
        assert times == (f"2023-11-14T22:{minute}:20Z",) * 2
        assert made["metadata"]["managedFields"][0]["time"] == times[0]


async def test_a_user_without_the_right_creates_no_repeat(client: Client) -> None:
    await client.create(pod("a"))
    assert (await client.send("POST", PODS, pod("b"), identity=Identity("somebody"))).status == 403


async def test_limits_of_a_namespace_hold_for_specs_known_before(client: Client) -> None:
    await client.create(pod("a"))
    limits = {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    path = "/api/v1/namespaces/default/limitranges"
    await client.create({"metadata": {"name": "small"}, "spec": limits}, path=path)
    assert (await client.send("POST", PODS, pod("b"))).status == 403


async def test_a_spec_is_known_in_the_namespace_it_came_to_only(client: Client) -> None:
    await client.create({"metadata": {"name": "other"}}, path="/api/v1/namespaces")
    limits = {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}
    path = "/api/v1/namespaces/other/limitranges"
    await client.create({"metadata": {"name": "some"}, "spec": limits}, path=path)
    await client.create(pod("a"))
    made = await client.create(pod("b"), path="/api/v1/namespaces/other/pods")
    assert made["spec"]["containers"][0]["resources"]["limits"]["memory"] == "1Gi"


async def test_every_pod_is_told_what_limits_were_set(client: Client) -> None:
    limits = {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}
    path = "/api/v1/namespaces/default/limitranges"
    await client.create({"metadata": {"name": "some"}, "spec": limits}, path=path)
    made = [await client.create(pod(name)) for name in "ab"]
    notes = [one["metadata"]["annotations"]["kubernetes.io/limit-ranger"] for one in made]
    assert "memory limit for container main" in notes[0] and notes[0] == notes[1]


@pytest.mark.parametrize("broken", ['"unknown": 1, "image"', '"image": "x", "image"'], ids=["unknown", "twice"])
async def test_what_one_client_ignores_another_is_told_of(client: Client, broken: str) -> None:
    pods = [{**pod(name), "spec": {"containers": pod(name)["spec"]["containers"]}} for name in "abc"]
    bodies = [json.dumps(one).replace('"image"', broken).encode() for one in pods]
    await client.create(bodies[0], "fieldValidation=Ignore")
    assert (await client.send("POST", PODS, bodies[1], "fieldValidation=Strict")).status == 400
    assert "Warning" in dict((await client.send("POST", PODS, bodies[2])).headers)


async def test_a_new_default_class_counts_for_specs_known_before(client: Client) -> None:
    assert (await client.create(pod("a")))["spec"]["priority"] == 0
    high = {"metadata": {"name": "high"}, "value": 1000, "globalDefault": True}
    await client.create(high, path="/apis/scheduling.k8s.io/v1/priorityclasses")
    assert (await client.create(pod("b")))["spec"]["priority"] == 1000


async def test_nothing_is_created_in_a_namespace_that_ends(client: Client) -> None:
    space = "/api/v1/namespaces/other"
    await client.create({"metadata": {"name": "other"}}, path="/api/v1/namespaces")
    await client.create(meta(pod("a"), finalizers=["example.com/keep"]), path=f"{space}/pods")
    await client.send("DELETE", space, {})
    assert (await client.send("POST", f"{space}/pods", pod("b"))).status == 403


async def test_a_webhook_sees_specs_known_before(client: Client) -> None:
    await client.create(pod("a"))
    hook = {
        "name": "no.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/never"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    await client.create({"metadata": {"name": "no"}, "webhooks": [hook]}, path=path)
    refused = await client.send("POST", PODS, pod("b"))
    assert refused.status == 500 and b"no.example.com" in refused.body


class Numbered:
    """A plug-in that gives every pod a number."""

    def __init__(self) -> None:
        self.count = 0

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource == "pods"

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        assert request.object is not None
        self.count += 1
        return Verdict(object={**request.object, "spec": {**request.object["spec"], "subdomain": f"n{self.count}"}})

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return Verdict()


async def test_a_plugin_that_handles_pods_sees_all_of_them() -> None:
    client = _client(plugins=(Numbered(),))
    await client.server.start()
    made = [await client.create(pod(name)) for name in "abc"]
    await client.server.stop()
    assert [one["spec"]["subdomain"] for one in made] == ["n1", "n2", "n3"]


async def test_a_spec_is_kept_when_it_comes_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    known = client.server._router._templates
    known._seen = set()
    monkeypatch.setattr(pod_template_cache, "MAX_SEEN", 2)
    kept = []
    for name, selected in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "y")):
        await client.create(pod(name, nodeSelector={"x": selected}))
        kept.append(len(known._known))
    assert (kept, len(known._seen)) == ([0, 1, 1, 1, 1], 2)


async def test_no_more_than_so_many_specs_are_known(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_template_cache, "MAX_KEPT", 2)
    for number in range(5):
        await client.create(pod(f"p{number}", nodeSelector={"x": str(number)}))
    assert len(client.server._router._templates._known) == 2


async def test_a_long_spec_is_not_kept(client: Client) -> None:
    await client.create(pod("a", nodeSelector={"key": "v"}, initContainers=[{"name": "i", "image": "i" * 20_000}]))
    assert not client.server._router._templates._known


def test_a_spec_whose_values_change_places_is_not_kept() -> None:
    env = b'"containers":[{"name":"c","env":[{"name":"X","value":"a"}]}]'
    sent, stored = b'{"hostname":"a",' + env + b"}", b"{" + env + b',"hostname":"a"}'
    assert pod_template_cache._is_free(sent, sent)
    assert not pod_template_cache._is_free(sent, stored)
