"""What the webhook answers beside reviews: whether it is ready, pages that others add, and how often it was called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.base.http import HttpReply, HttpRequest
from spinney.api.operator_configuration import load_configuration
from spinney.api.roles import NAMESPACE, users_in
from spinney.cli.wiring.roles.webhook import rules_of
from spinney.serve.webhook.handler import AdmissionUnion, Limits, Webhook

JSON_HEADERS = {"content-type": "application/json"}


class Nothing:
    """A cluster that nobody looks at."""

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        raise AssertionError("not asked")

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        raise AssertionError("not asked")


class Rules:
    """Judges one resource, and says who judged."""

    def __init__(self, resource: str) -> None:
        self._resource = resource

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource == self._resource

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return Verdict(warnings=(f"{self._resource} filled in",))

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return Verdict(False, message=f"{self._resource} refused")


def asked(resource: str) -> AdmissionRequest:
    return AdmissionRequest("u", "CREATE", "g", "v1", "Kind", resource, "", "n", "x", "me", (), {}, None)


def lookup() -> Any:
    raise AssertionError("not asked")


async def test_it_is_ready_when_nothing_is_wrong_and_alive_in_any_case() -> None:
    troubles = ["certificates have not been published"]
    webhook = Webhook(AdmissionUnion(()), Nothing(), trouble=lambda: "".join(troubles))
    refused = await webhook.handle(HttpRequest("GET", "/readyz"))
    assert (refused.status, refused.body) == (503, b"certificates have not been published\n")
    assert (await webhook.handle(HttpRequest("GET", "/healthz"))).status == 200
    troubles.clear()
    assert (await webhook.handle(HttpRequest("GET", "/readyz"))).status == 200


async def test_a_page_of_others_is_served_under_the_same_limits_and_counted() -> None:
    async def convert(request: HttpRequest) -> HttpReply:
        return HttpReply(200, request.body)

    webhook = Webhook(AdmissionUnion(()), Nothing(), pages={"/convert": convert})
    call = HttpRequest("POST", "/convert", headers=JSON_HEADERS, body=b"{}")
    assert (await webhook.handle(call)).body == b"{}"
    assert (await webhook.handle(HttpRequest("POST", "/convert"))).status == 415
    assert (await webhook.handle(HttpRequest("POST", "/other"))).status == 404
    assert dict(webhook.answered) == {("/convert", 200): 1, ("/convert", 415): 1}
    busy = Webhook(AdmissionUnion(()), Nothing(), Limits(concurrent=0), pages={"/convert": convert})
    assert (await busy.handle(call)).status == 429


def test_each_request_is_judged_by_the_rules_that_handle_it() -> None:
    both = AdmissionUnion((Rules("sets"), Rules("graphs")))
    assert both.mutate(asked("graphs"), lookup).warnings == ("graphs filled in",)  # type: ignore[arg-type]
    assert both.validate(asked("sets"), lookup).message == "sets refused"  # type: ignore[arg-type]
    assert not both.handles(asked("pods"))
    assert both.validate(asked("pods"), lookup).allowed  # type: ignore[arg-type]


Json = dict[str, Any]


def review(kind: str, resource: str, obj: Json, old: Json | None = None, **more: Any) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    asked = {
        "uid": "u1",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": resource},
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"].get("namespace", ""),
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "alice", "groups": ["dev"]},
        "object": obj,
        "oldObject": old,
        **more,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


def response(reply: HttpReply) -> Json:
    assert reply.status == 200, reply.body
    found: Json = json.loads(reply.body)["response"]
    return found


class Failing(Rules):
    """Our own mistake, in each of its questions."""

    def __init__(self, where: str) -> None:
        super().__init__("pods")
        self._where = where

    def handles(self, request: AdmissionRequest) -> bool:
        return self._fail("handles") or True

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        self._fail("mutate")
        return Verdict()

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        self._fail("validate")
        return Verdict()

    def _fail(self, where: str) -> bool:
        if where == self._where:
            raise ZeroDivisionError("a secret of somebody")
        return False


@pytest.mark.parametrize(
    ("where", "path"), [("handles", "/validate"), ("validate", "/validate"), ("mutate", "/mutate")]
)
async def test_a_rule_that_fails_denies_and_says_that_the_mistake_is_ours(where: str, path: str) -> None:
    webhook = Webhook(Failing(where), Nothing())
    call = HttpRequest("POST", path, headers=JSON_HEADERS, body=review("Pod", "pods", pod({"cpu": "1"})))
    with capture_logs() as logs:
        answer = response(await webhook.handle(call))
    assert (answer["uid"], answer["allowed"], answer["status"]["code"]) == ("u1", False, 500)
    assert answer["status"]["message"] == (
        "Pod team/vast could not be checked: a rule of the Spinney webhook failed (ZeroDivisionError); "
        "the mistake is Spinney's, and the log of the webhook has the trace"
    )
    (line,) = [one for one in logs if one["log_level"] == "error"]
    assert (line["object"], line["resource"]) == ("team/vast", "pods")
    assert isinstance(line["exc_info"].__cause__, ZeroDivisionError)
    assert (webhook.faults[path], webhook.answered[path, 200]) == (1, 1)


class Empty:
    """A cluster with nothing in it."""

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        return None

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        return ()


VAST = {"memory": "9" * 5000}


def containers(amounts: Json) -> list[Json]:
    return [{"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]


def pod(amounts: Json, **metadata: Any) -> Json:
    named = {"name": "vast", "namespace": "team", "labels": {"app.kubernetes.io/managed-by": "grove-operator"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**named, **metadata},
        "spec": {"nodeName": "n0", "containers": containers(amounts)},
    }


def podcliqueset(amounts: Json) -> Json:
    cliques = [{"name": "w", "spec": {"replicas": 1, "podSpec": {"containers": containers(amounts)}}}]
    metadata = {"name": "set", "namespace": "team"}
    spec = {"replicas": 1, "template": {"cliques": cliques}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("authorizer", [True, False])
async def test_amounts_of_5000_digits_are_reviewed_like_any_others(path: str, authorizer: bool) -> None:
    configuration = load_configuration(json.dumps({"authorizer": {"enabled": authorizer}}))
    _, rules = rules_of(configuration, users_in(NAMESPACE))
    webhook = Webhook(rules, Empty())
    bodies = [
        review("Pod", "pods", pod(VAST)),
        review("Pod", "pods", pod(VAST, annotations={"a": "b"}), pod(VAST)),
        review("PodCliqueSet", "podcliquesets", podcliqueset(VAST)),
        review("PodCliqueSet", "podcliquesets", podcliqueset({"memory": "1Gi"}), podcliqueset(VAST)),
        review("PodCliqueSet", "podcliquesets", podcliqueset({"cpu": "1"})),
    ]
    for body in bodies:
        response(await webhook.handle(HttpRequest("POST", path, headers=JSON_HEADERS, body=body)))
    assert not webhook.faults
