"""Each fault does what its name says, at the rate it is given, and the same seed injects the same faults."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from spinney.drive.client.http.transport import NotSent, Response, Stream, TransportError, TransportTimeout
from spinney.sim.event_loop import Sim, run
from spinney.sim.faults import Crash, CrashPoint, Fault, FaultyTransport, Schedule, When

PATH = "/api/v1/pods"
LINES = [b'{"type":"ADDED","object":{}}\n', b'{"type":"MODIFIED","object":{}}\n']


class Answers:
    """A transport that commits everything and says so."""

    def __init__(self) -> None:
        self.committed: list[str] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        self.committed.append(f"{method} {path}")
        return Response(200, {}, b"{}")

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        yield Lines()

    async def close(self) -> None: ...


class Lines:
    status = 200
    headers: Mapping[str, str] = {}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in LINES:
            yield line

    async def read(self) -> bytes:
        return b"".join(LINES)


def faulty(
    fault: Fault | None = None, rate: float = 1.0, seed: int = 0, **rest: object
) -> tuple[Answers, FaultyTransport]:
    inner = Answers()
    rates = {fault: rate} if fault else {}
    return inner, FaultyTransport(inner, random.Random(seed), Schedule(rates, **rest))  # type: ignore[arg-type]


REFUSALS = [(Fault.CONFLICT, 409), (Fault.THROTTLED, 429), (Fault.SERVER_ERROR, 500)]


@pytest.mark.parametrize(("fault", "code"), REFUSALS)
async def test_a_refusal_is_answered_and_nothing_is_committed(fault: Fault, code: int) -> None:
    inner, transport = faulty(fault)
    response = await transport.request("PUT", PATH)
    assert response.status == code
    assert f'"code":{code}'.encode() in response.body
    assert inner.committed == []


async def test_throttling_says_when_to_come_back() -> None:
    _, transport = faulty(Fault.THROTTLED, retry_after_s=7)
    assert (await transport.request("GET", PATH)).headers["retry-after"] == "7"


async def test_a_conflict_never_hits_a_read() -> None:
    _, transport = faulty(Fault.CONFLICT)
    assert (await transport.request("GET", PATH)).status == 200


async def test_expiry_hits_only_a_continued_list() -> None:
    _, transport = faulty(Fault.EXPIRED)
    assert (await transport.request("GET", PATH)).status == 200
    assert (await transport.request("GET", PATH, query={"continue": "x"})).status == 410


async def test_a_refused_connection_commits_nothing() -> None:
    inner, transport = faulty(Fault.REFUSED)
    with pytest.raises(NotSent):
        await transport.request("POST", PATH)
    assert inner.committed == []


async def test_a_reset_connection_has_committed() -> None:
    inner, transport = faulty(Fault.RESET_AFTER)
    with pytest.raises(TransportError, match="reset"):
        await transport.request("POST", PATH)
    assert inner.committed == [f"POST {PATH}"]


@pytest.mark.parametrize(("fault", "committed"), [(Fault.TIMEOUT_BEFORE, 0), (Fault.TIMEOUT_AFTER, 1)])
def test_a_timeout_takes_its_time_and_falls_before_or_after_the_commit(fault: Fault, committed: int) -> None:
    async def main(sim: Sim) -> tuple[int, float]:
        inner, transport = faulty(fault)
        with pytest.raises(TransportTimeout):
            await transport.request("POST", PATH, timeout_s=3)
        return len(inner.committed), sim.clock.monotonic()

    assert run(main) == (committed, 3.0)


def test_latency_delays_and_then_answers() -> None:
    async def main(sim: Sim) -> tuple[int, float]:
        _, transport = faulty(Fault.LATENCY, latency_s=10)
        response = await transport.request("GET", PATH)
        return response.status, sim.clock.monotonic()

    status, took_s = run(main)
    assert status == 200
    assert 0 < took_s < 10


async def chunks(transport: FaultyTransport) -> list[bytes]:
    async with transport.stream(PATH) as stream:
        return [chunk async for chunk in stream]


async def test_a_watch_without_faults_is_untouched() -> None:
    assert await chunks(faulty()[1]) == LINES


async def test_a_cut_watch_ends_early_without_an_error() -> None:
    assert await chunks(faulty(Fault.WATCH_CUT)[1]) == []


async def test_a_torn_watch_breaks_in_the_middle_of_a_line() -> None:
    _, transport = faulty(Fault.WATCH_TORN)
    seen = []
    with pytest.raises(TransportError):
        async with transport.stream(PATH) as stream:
            async for chunk in stream:
                seen.append(chunk)
    assert seen == [LINES[0][: len(LINES[0]) // 2]]


def test_a_late_watch_keeps_its_order() -> None:
    async def main(sim: Sim) -> tuple[list[bytes], float]:
        return await chunks(faulty(Fault.WATCH_LATE, watch_delay_s=100)[1]), sim.clock.monotonic()

    seen, took_s = run(main)
    assert seen == LINES
    assert took_s > 0


async def test_an_expired_watch_says_so_by_status_or_by_event() -> None:
    ways = set()
    for seed in range(20):
        _, transport = faulty(Fault.EXPIRED, seed=seed)
        async with transport.stream(PATH) as stream:
            assert b'"code":410' in await stream.read()
            ways.add(stream.status)
    assert ways == {200, 410}


CRASHES = [(When.BEFORE, 1), (When.UNANSWERED, 2)]


@pytest.mark.parametrize(("when", "committed"), CRASHES)
async def test_a_crash_at_the_second_write_ends_everything(when: When, committed: int) -> None:
    inner, transport = faulty(crash=CrashPoint(2, when))
    await transport.request("POST", PATH)
    await transport.request("GET", PATH)
    with pytest.raises(Crash):
        await transport.request("POST", PATH)
    with pytest.raises(Crash):
        await transport.request("POST", PATH)
    with pytest.raises(Crash):
        await chunks(transport)
    assert len([line for line in inner.committed if line.startswith("POST")]) == committed


async def test_a_crash_after_the_reply_falls_on_the_next_request() -> None:
    inner, transport = faulty(crash=CrashPoint(1, When.AFTER))
    assert (await transport.request("POST", PATH)).status == 200
    with pytest.raises(Crash):
        await transport.request("GET", PATH)
    assert len(inner.committed) == 1


async def test_a_crash_is_not_an_exception_that_a_handler_survives() -> None:
    assert not issubclass(Crash, Exception)


async def test_calm_ends_all_faults() -> None:
    _, transport = faulty(Fault.SERVER_ERROR)
    transport.calm()
    assert (await transport.request("PUT", PATH)).status == 200


async def test_faults_can_be_kept_to_some_requests() -> None:
    _, transport = faulty(Fault.SERVER_ERROR, only=lambda method, path: method == "PUT")
    assert (await transport.request("GET", PATH)).status == 200
    assert (await transport.request("PUT", PATH)).status == 500


def _storm(seed: int) -> list[str]:
    async def main(sim: Sim) -> list[str]:
        transport = FaultyTransport(Answers(), sim.dice, Schedule(otherwise=0.05))
        for number in range(300):
            try:
                await transport.request("PUT" if number % 2 else "GET", PATH)
            except TransportError:
                continue
        return [str(line) for line in transport.log]

    return run(main, seed=seed)


def test_the_same_seed_injects_the_same_faults() -> None:
    assert _storm(3) == _storm(3)
    assert _storm(3) != _storm(4)


async def test_what_was_injected_is_counted_and_logged() -> None:
    _, transport = faulty(Fault.SERVER_ERROR)
    await transport.request("PUT", PATH)
    assert transport.counts[Fault.SERVER_ERROR] == 1
    assert [str(line) for line in transport.log] == [f"#1 PUT {PATH}: 500"]


async def test_rates_are_kept() -> None:
    _, transport = faulty(Fault.SERVER_ERROR, rate=0.2)
    for _ in range(2000):
        await transport.request("GET", PATH)
    assert 300 < transport.counts[Fault.SERVER_ERROR] < 500
