"""The webhook: reviews in and out, live reads, limits, certificates, and what the API server is told to ask."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_apimachinery import tls
from kube_embedded.base.http import HttpReply, HttpRequest
from kube_embedded.patch.json_operations import apply_operations
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.serve.webhook.configurations import Address, webhook_configurations
from spinney.serve.webhook.handler import Limits, Webhook, differences
from spinney.serve.webhook.listener import serving
from spinney.serve.webhook.live_lookup import TooManyReadsError, ask
from unit.admission.admission_kit import ON, Json, View, pack, pcs, podclique, request, stored, topology, view

JSON_HEADERS = {"content-type": "application/json"}


class Slow:
    """A cluster that answers from a view, and counts; with a gate it waits."""

    def __init__(self, seen: View, gate: asyncio.Event | None = None) -> None:
        self.seen = seen
        self.gate = gate
        self.reads: list[str] = []

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Json | None:
        self.reads.append(f"{plural}/{name}")
        if self.gate is not None:
            await self.gate.wait()
        return self.seen(group, plural, namespace, name)

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        self.reads.append(plural)
        return self.seen.listing(group, plural, namespace, labels)


def review(obj: Json, old: Json | None = None, **more: Any) -> bytes:
    plural = "clustertopologies" if obj["kind"] == "ClusterTopology" else "podcliquesets"
    asked = {
        "uid": "u1",
        "kind": {"group": "grove.io", "version": "v1alpha1", "kind": obj["kind"]},
        "resource": {"group": "grove.io", "version": "v1alpha1", "resource": plural},
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"].get("namespace", ""),
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "alice", "groups": ["dev"], "extra": {"k": ["v"]}},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions"},
        **more,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def post(path: str, body: bytes, headers: Mapping[str, str] = JSON_HEADERS) -> HttpRequest:
    return HttpRequest("POST", path, headers=headers, body=body)


def response(reply: HttpReply) -> Json:
    assert reply.status == 200, reply.body
    answer = json.loads(reply.body)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u1"
    found: Json = answer["response"]
    return found


def webhook(seen: View | None = None, **limits: Any) -> Webhook:
    return Webhook(OperatorAdmission(ON), Slow(seen or view()), Limits(**limits))


async def test_a_mutation_is_a_patch_that_makes_the_stored_object() -> None:
    given_set = pcs(constraint=pack("rack"))
    answer = response(await webhook().handle(post("/mutate", review(given_set))))
    assert (answer["allowed"], answer["patchType"]) == (True, "JSONPatch")
    operations = json.loads(base64.b64decode(answer["patch"]))
    assert apply_operations(given_set, operations) == stored(given_set)


async def test_nothing_to_change_is_no_patch() -> None:
    answer = response(await webhook().handle(post("/mutate", review(stored(pcs())))))
    assert answer == {"uid": "u1", "allowed": True}


async def test_a_refusal_is_a_status_with_every_cause() -> None:
    lookup = view(topology("zone"))
    bad = stored(pcs(constraint=pack("rack"), terminationDelay="0s"))
    status = response(await webhook(lookup).handle(post("/validate", review(bad))))["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith('PodCliqueSet.grove.io "p" is invalid: [')
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "spec.template.terminationDelay",
        "spec.template.topologyConstraint.packDomain",
    ]


async def test_warnings_are_sent_with_a_yes() -> None:
    answer = response(await webhook().handle(post("/validate", review(topology("zone")))))
    assert answer["allowed"]
    assert "is reserved" in answer["warnings"][0]


async def test_what_the_rules_do_not_handle_is_allowed() -> None:
    other = review(stored(pcs()), subResource="scale")
    assert response(await webhook().handle(post("/validate", other)))["allowed"]


async def test_rules_are_asked_again_until_all_that_they_look_at_is_read() -> None:
    lookup = view(topology("zone", "rack", name="a"), topology("zone", "rack", name="b"))
    old = stored(pcs(constraint=pack("rack"), clusterTopologyName="a"), lookup=lookup)
    new = stored(pcs(constraint=pack("rack"), clusterTopologyName="b"), lookup=lookup, old=old)
    cluster = Slow(lookup.add("podcliques", podclique("p", 0)))
    verdict = await ask(OperatorAdmission(ON).validate, request(new, old), cluster)
    assert verdict.allowed
    assert cluster.reads == ["clustertopologybindings/b", "clustertopologies/b", "podcliques", "pods"]


async def test_a_rule_that_never_has_enough_is_stopped() -> None:
    def greedy(asked: Any, lookup: Any) -> Any:
        for index in range(1000):
            lookup("", "pods", "", str(index))

    with pytest.raises(TooManyReadsError):
        await ask(greedy, request(pcs()), Slow(view()))


REFUSED: dict[str, tuple[HttpRequest, int]] = {
    "another path": (post("/other", b""), 404),
    "another method": (HttpRequest("GET", "/validate"), 405),
    "another content": (post("/validate", b"{}", {"content-type": "text/plain"}), 415),
    "no JSON": (post("/validate", b"{"), 400),
    "no UTF-8": (post("/validate", b'{"apiVersion": "\xff"}'), 400),
    "no review": (post("/validate", b'{"apiVersion": "v1", "kind": "Pod"}'), 400),
    "an old review": (post("/validate", review(pcs()).replace(b"k8s.io/v1", b"k8s.io/v1beta1")), 400),
    "a deep body": (post("/validate", b'{"request":' * 5000), 400),
    "an object that is none": (post("/validate", review(pcs()).replace(b'"oldObject": null', b'"oldObject": 5')), 400),
}


@pytest.mark.parametrize("row", REFUSED)
async def test_what_is_no_review_is_refused_with_a_status(row: str) -> None:
    asked, code = REFUSED[row]
    assert (await webhook().handle(asked)).status == code


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_it_says_that_it_is_well(path: str) -> None:
    assert (await webhook().handle(HttpRequest("GET", path))).status == 200


async def test_one_review_too_many_is_told_to_come_back() -> None:
    gate = asyncio.Event()
    hook = Webhook(OperatorAdmission(ON), Slow(view(), gate), Limits(concurrent=2))
    asked = post("/validate", review(stored(pcs(constraint=pack("rack")))))
    waiting = [asyncio.create_task(hook.handle(asked)) for _ in range(2)]
    await asyncio.sleep(0)
    assert (await hook.handle(asked)).status == 429
    gate.set()
    assert [reply.status for reply in await asyncio.gather(*waiting)] == [200, 200]
    assert (await hook.handle(asked)).status == 200


async def test_a_cluster_that_does_not_answer_is_an_error_and_never_a_yes() -> None:
    hook = Webhook(OperatorAdmission(ON), Slow(view(), asyncio.Event()), Limits(deadline_s=0.01))
    reply = await hook.handle(post("/validate", review(stored(pcs(constraint=pack("rack"))))))
    assert reply.status == 504


async def test_a_cluster_that_fails_is_an_error_and_never_a_yes() -> None:
    class Broken(Slow):
        async def get(self, group: str, plural: str, namespace: str, name: str) -> Json | None:
            raise OSError("connection refused")

    hook = Webhook(OperatorAdmission(ON), Broken(view()))
    reply = await hook.handle(post("/validate", review(stored(pcs(constraint=pack("rack"))))))
    assert reply.status == 500


JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.text("ab/~", max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text("ab/~", max_size=2), JSONS), st.dictionaries(st.text("ab/~", max_size=2), JSONS))
def test_a_patch_leads_from_one_object_to_the_other(before: Json, after: Json) -> None:
    assert apply_operations(before, differences(before, after)) == after
    assert differences(after, after) == []


def authority() -> tls.Certificate:
    return tls.create_authority("webhook", now_s=time.time())


async def test_it_listens_by_tls_only_and_changes_its_certificate_without_a_failed_call() -> None:
    first, second = authority(), authority()
    leaves = [tls.issue(one, ["127.0.0.1"], now_s=time.time()) for one in (first, second)]
    async with serving(webhook(), leaves[0]) as listener, aiohttp.ClientSession() as kept:
        trust = tls.client_context(first.certificate_pem + second.certificate_pem)
        body = review(stored(pcs()))

        async def call(session: aiohttp.ClientSession, trusted: ssl.SSLContext) -> int:
            async with session.post(f"{listener.url}/validate", data=body, headers=JSON_HEADERS, ssl=trusted) as reply:
                return reply.status

        assert await call(kept, trust) == 200
        listener.show(leaves[1])
        assert await call(kept, trust) == 200
        async with aiohttp.ClientSession() as fresh:
            assert await call(fresh, tls.client_context(second.certificate_pem)) == 200
            with pytest.raises(aiohttp.ClientError):
                await call(fresh, tls.client_context(first.certificate_pem))


ADDRESS = Address(b"pem", service_namespace="spinney-system", service_name="spinney-webhook")


_SERVED = {
    "dynamographdeployments": (["nvidia.com"], ["v1alpha1", "v1beta1"]),
    "podgroups": (["scheduling.run.ai"], ["v2alpha2"]),
    "queues": (["scheduling.run.ai"], ["v2"]),
}


def test_the_api_server_is_told_to_ask_about_our_kinds_only() -> None:
    mutating, validating = webhook_configurations(ADDRESS, ["spinney-system"])
    assert (mutating["kind"], validating["kind"]) == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    for hook in (*mutating["webhooks"], *validating["webhooks"]):
        (rule,) = hook["rules"]
        assert (rule["apiGroups"], rule["apiVersions"]) == _SERVED.get(
            rule["resources"][0], (["grove.io"], ["v1alpha1"])
        )
        assert rule["operations"] == ["CREATE", "UPDATE"]
        assert (hook["sideEffects"], hook["admissionReviewVersions"]) == ("None", ["v1"])
        assert hook["clientConfig"]["caBundle"] == base64.b64encode(b"pem").decode()
    asked = [[hook["rules"][0]["resources"] for hook in each["webhooks"]] for each in (mutating, validating)]
    ours = [["clustertopologies"], ["clustertopologybindings"], ["podcliquesets"]]
    graphs = ["dynamographdeployments"]
    assert asked == [[*ours, graphs], [*ours, ["podgroups"], ["queues"], graphs]]


def test_deployments_are_judged_in_the_version_that_was_written() -> None:
    for configuration in webhook_configurations(ADDRESS, ["spinney-system"]):
        policies = {hook["rules"][0]["resources"][0]: hook["matchPolicy"] for hook in configuration["webhooks"]}
        assert policies.pop("dynamographdeployments") == "Exact"
        assert set(policies.values()) == {"Equivalent"}


def test_validation_fails_closed_and_defaulting_may_fail_open() -> None:
    mutating, validating = webhook_configurations(ADDRESS, ["spinney-system"])
    assert {hook["failurePolicy"] for hook in mutating["webhooks"]} == {"Ignore"}
    assert {hook["failurePolicy"] for hook in validating["webhooks"]} == {"Fail"}


def test_our_own_and_system_namespaces_are_never_asked_about() -> None:
    for configuration in webhook_configurations(ADDRESS, ["spinney-system"]):
        hook = next(one for one in configuration["webhooks"] if one["rules"][0]["scope"] == "Namespaced")
        (outside,) = hook["namespaceSelector"]["matchExpressions"]
        assert (outside["operator"], outside["values"]) == (
            "NotIn",
            ["kube-node-lease", "kube-public", "kube-system", "spinney-system"],
        )


def test_a_url_may_stand_for_the_service() -> None:
    (mutating, _) = webhook_configurations(Address(b"pem", url="https://127.0.0.1:1"), [])
    assert mutating["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:1/mutate"
