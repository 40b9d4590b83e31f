"""What the webhook answers beside reviews: whether it is ready, pages that others add, and how often it was called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spinney.api.admission import AdmissionRequest, Lookup, Object, Verdict
from spinney.serve.apiserver.http import HttpReply, HttpRequest
from spinney.serve.webhook.serving import Limits, Webhook
from spinney.serve.webhook.together import Together

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
    webhook = Webhook(Together(()), Nothing(), trouble=lambda: "".join(troubles))
    refused = await webhook.handle(HttpRequest("GET", "/readyz"))
    assert (refused.status, refused.body) == (503, b"certificates have not been published\n")
    assert (await webhook.handle(HttpRequest("GET", "/healthz"))).status == 200
    troubles.clear()
    assert (await webhook.handle(HttpRequest("GET", "/readyz"))).status == 200


async def test_a_page_of_others_is_served_under_the_same_limits_and_counted() -> None:
    async def convert(request: HttpRequest) -> HttpReply:
        return HttpReply(200, request.body)

    webhook = Webhook(Together(()), Nothing(), pages={"/convert": convert})
    call = HttpRequest("POST", "/convert", headers=JSON_HEADERS, body=b"{}")
    assert (await webhook.handle(call)).body == b"{}"
    assert (await webhook.handle(HttpRequest("POST", "/convert"))).status == 415
    assert (await webhook.handle(HttpRequest("POST", "/other"))).status == 404
    assert dict(webhook.answered) == {("/convert", 200): 1, ("/convert", 415): 1}
    busy = Webhook(Together(()), Nothing(), Limits(concurrent=0), pages={"/convert": convert})
    assert (await busy.handle(call)).status == 429


def test_each_request_is_judged_by_the_rules_that_handle_it() -> None:
    both = Together((Rules("sets"), Rules("graphs")))
    assert both.mutate(asked("graphs"), lookup).warnings == ("graphs filled in",)
    assert both.validate(asked("sets"), lookup).message == "sets refused"
    assert not both.handles(asked("pods"))
    assert both.validate(asked("pods"), lookup).allowed
