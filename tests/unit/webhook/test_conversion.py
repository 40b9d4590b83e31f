"""Conversion for an API server, and rules that meet something they cannot read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Unreadable, Verdict
from kube_embedded.base.http import HttpRequest
from spinney.serve.webhook.handler import CONVERT, AdmissionUnion, Webhook, converted
from spinney.serve.webhook.live_lookup import ask

JSON_HEADERS = {"content-type": "application/json"}
ALPHA, BETA = "nvidia.com/v1alpha1", "nvidia.com/v1beta1"


class Forbidding:
    """A cluster that may not be read."""

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        raise PermissionError(f"{plural} is forbidden")

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        raise PermissionError(f"{plural} is forbidden")


def review(*objects: Any, to: str = BETA, kind: str = "ConversionReview") -> bytes:
    request = {"uid": "u", "desiredAPIVersion": to, "objects": list(objects)}
    return json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "request": request}).encode()


async def call(body: bytes) -> tuple[int, Any]:
    webhook = Webhook(AdmissionUnion(()), Forbidding(), pages={CONVERT: converted})
    reply = await webhook.handle(HttpRequest("POST", CONVERT, headers=JSON_HEADERS, body=body))
    return reply.status, json.loads(reply.body)


def alpha(name: str) -> Object:
    return {"apiVersion": ALPHA, "kind": "DynamoGraphDeployment", "metadata": {"name": name, "uid": name}, "spec": {}}


async def test_d12_all_objects_of_a_review_are_converted_in_their_order() -> None:
    status, answer = await call(review(alpha("a"), alpha("b")))
    response = answer["response"]
    assert (status, response["uid"], response["result"]) == (200, "u", {"status": "Success"})
    assert [(one["apiVersion"], one["metadata"]["uid"]) for one in response["convertedObjects"]] == [
        (BETA, "a"),
        (BETA, "b"),
    ]


async def test_one_that_cannot_be_converted_fails_the_review() -> None:
    status, answer = await call(review(alpha("a"), {**alpha("b"), "spec": 3}))
    response = answer["response"]
    assert (status, response["result"]["status"], response["convertedObjects"]) == (200, "Failure", [])
    assert "does not have the shape of its version" in response["result"]["message"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", review(kind="AdmissionReview"), review(3)])
async def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    assert (await call(body))[0] == 400


def asked() -> AdmissionRequest:
    return AdmissionRequest("u", "CREATE", "g", "v1", "Kind", "things", "", "n", "x", "me", (), {}, None)


async def test_d7_a_rule_is_told_that_something_cannot_be_read() -> None:
    def rule(request: AdmissionRequest, lookup: Lookup) -> Verdict:
        try:
            lookup("grove.io", "clustertopologies", "", "t")
        except Unreadable as error:
            return Verdict(False, message=str(error))
        return Verdict()

    verdict = await ask(rule, asked(), Forbidding())
    assert (verdict.allowed, verdict.message) == (False, "clustertopologies is forbidden")


async def test_a_rule_that_has_no_answer_to_that_leaves_the_error_as_it_is() -> None:
    def rule(request: AdmissionRequest, lookup: Lookup) -> Verdict:
        lookup.listing("", "pods")
        return Verdict()

    with pytest.raises(PermissionError, match="pods is forbidden"):
        await ask(rule, asked(), Forbidding())
