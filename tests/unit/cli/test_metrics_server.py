"""Metrics for those alone who may read them: over TLS, by the word of the API server."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Unpack

import pytest
import urllib3

from kube_apimachinery.clock import Clock
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.cli.wiring.roles.metrics_server import MetricsGuard, measured, metrics_text
from spinney.drive.apply.door import Door
from spinney.drive.apply.write import ANY
from spinney.drive.client.errors import NotSent
from spinney.drive.client.http.transport import RequestOptions, Response, Stream, StreamOptions
from spinney.drive.client.paths import Ref, ResourcePath

SCRAPER = {"username": "system:serviceaccount:monitoring:prometheus", "groups": ["scrapers"]}
USERS = {"good": SCRAPER, "other": {"username": "system:serviceaccount:team:somebody"}}


class Reviews:
    """An API server that knows two tokens, of whom one may read metrics; `away`: it cannot be reached."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = False

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        if self.away:
            raise NotSent("nobody is there")
        body: dict[str, Any] = json.loads(options.get("body") or b"{}")
        self.asked.append(path.rpartition("/")[2])
        return Response(201, {}, json.dumps({**body, "status": _status(body["kind"], body["spec"])}).encode())

    def stream(self, path: str, **options: Unpack[StreamOptions]) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def _status(kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind == "TokenReview":
        user = USERS.get(spec["token"])
        return {"authenticated": True, "user": user} if user else {"authenticated": False}
    may = spec["user"] == SCRAPER["username"] and spec.get("groups") == ["scrapers"]
    return {"allowed": may and spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}}


class ManualClock(SystemClock):
    """Its monotonic time is told."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def guard_of(reviews: Reviews, clock: Clock | None = None) -> MetricsGuard:
    return MetricsGuard(Door(reviews, system_dice(), field_manager="test"), clock or SystemClock())


@pytest.mark.parametrize(
    ("token", "status"),
    [("", "401"), ("wrong", "401"), ("other", "403"), ("good", "")],
    ids=lambda each: each or "none",
)
async def test_r14_metrics_are_for_those_who_may_read_them(token: str, status: str) -> None:
    assert (await guard_of(Reviews()).refusal(token))[:3] == status


async def test_r14_nobody_reads_metrics_while_the_api_server_cannot_be_asked() -> None:
    reviews = Reviews()
    guard = guard_of(reviews)
    reviews.away = True
    assert (await guard.refusal("good"))[:3] == "503"
    reviews.away = False
    assert await guard.refusal("good") == ""


async def test_r14_an_answer_of_the_api_server_is_good_for_half_a_minute() -> None:
    reviews, clock = Reviews(), ManualClock()
    guard = guard_of(reviews, clock)
    for _ in range(3):
        assert await guard.refusal("good") == ""
    assert reviews.asked == ["tokenreviews", "subjectaccessreviews"]
    clock.now_s = 31.0
    await guard.refusal("good")
    assert len(reviews.asked) == 4


async def test_r14_guarded_metrics_speak_tls_alone() -> None:
    def get(url: str, **headers: str) -> int:
        pool = urllib3.PoolManager(cert_reqs=ssl.CERT_NONE, assert_hostname=False)
        return pool.request("GET", url, headers=headers, retries=False, timeout=60).status

    async with measured("127.0.0.1", 0, lambda: "a 1\n", guard_of(Reviews())) as port:
        url = f"127.0.0.1:{port}/metrics"
        assert await asyncio.to_thread(get, f"https://{url}") == 401
        assert await asyncio.to_thread(get, f"https://{url}", authorization="Bearer good") == 200
        with pytest.raises(urllib3.exceptions.HTTPError):
            await asyncio.to_thread(get, f"http://{url}", authorization="Bearer good")


async def test_a_write_and_what_became_of_it_is_counted() -> None:
    things = ResourcePath("test.dev", "v1", "countedthings", namespaced=False)
    door, body = (
        Door(Reviews(), system_dice(), field_manager="counter"),
        {"kind": "TokenReview", "spec": {"token": "a"}},
    )
    await door.apply(Ref(things, "a"), body, ANY, dry_run=True)
    assert "countedthings" not in metrics_text({})
    await door.apply(Ref(things, "a"), body, ANY)
    line = 'spinney_writes_total{manager="counter",resource="countedthings.test.dev",verb="apply",outcome="Written"} 1'
    assert line in metrics_text({}).splitlines()
