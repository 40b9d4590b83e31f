"""Lease election: one leader at a time by the clock, epochs that never decrease, and a loser that stops."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from spinney.drive.apply.door import Door
from spinney.drive.client.transport import Response, TransportTimeout
from spinney.drive.loop.election import LEASES, Election, Leadership, LeadershipLost, Terms
from unit.drive.drive_kit import HASTY, LoopClock, in_skipped_time, reader, refusal, reply

REF = LEASES.ref("scheduler", "kube-system")


class LeaseServer:
    """One Lease with compare-and-swap. `broken` loses requests, `deaf` carries them out and loses the answer."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken = False
        self.deaf = False
        self.holders: list[tuple[str, int]] = []

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> Response:
        await asyncio.sleep(0.01)
        if self.broken:
            raise TransportTimeout("lost")
        answer = self._carry_out(method, msgspec.json.decode(body) if body else {})
        if self.deaf and method != "GET":
            raise TransportTimeout("answer lost")
        return answer

    def _carry_out(self, method: str, sent: dict[str, Any]) -> Response:
        match method, self.lease:
            case "GET", None:
                return refusal(404, "NotFound")
            case "GET", lease:
                return reply(lease)
            case "POST", None:
                return self._store({**sent, "metadata": {**sent["metadata"], "uid": f"u{self.version}"}})
            case "POST", _:
                return refusal(409, "AlreadyExists")
            case "PATCH", None:
                return refusal(404, "NotFound")
            case "PATCH", lease:
                assert lease is not None
                if sent["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
                    return refusal(409, "Conflict")
                return self._store({**lease, "spec": {**lease["spec"], **sent["spec"]}})
        raise AssertionError(method)

    def _store(self, lease: dict[str, Any]) -> Response:
        self.version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        spec = self.lease["spec"]
        holder = (spec["holderIdentity"], spec["leaseTransitions"])
        if not self.holders or self.holders[-1] != holder:
            self.holders.append(holder)
        return reply(self.lease)

    @asynccontextmanager
    async def stream(self, path: str, **_: Mapping[str, str] | None) -> AsyncIterator[Any]:
        raise AssertionError("an election does not watch")
        yield

    async def close(self) -> None:
        pass


class Candidate:
    def __init__(self, server: LeaseServer, name: str, **more: Any) -> None:
        dice = random.Random(name)
        self.door = Door(server, dice, field_manager=name, patience=HASTY)
        self.election = Election(reader(server), self.door, REF, name, LoopClock(), dice, **more)
        self.leadership: Leadership | None = None
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] = asyncio.create_task(self.election.run(self.lead))

    async def lead(self, leadership: Leadership) -> None:
        self.leadership = leadership
        await self.ended.wait()

    @property
    def leads(self) -> bool:
        return self.leadership is not None and self.leadership.holds()

    async def kill(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError, LeadershipLost):
            await self.task


@in_skipped_time
async def test_the_first_to_come_leads_with_the_first_epoch_and_keeps_leading() -> None:
    server = LeaseServer()
    first, second = Candidate(server, "one"), Candidate(server, "two")
    await asyncio.sleep(120)
    assert (first.leads, second.leads) == (True, False)
    assert server.holders == [("one", 1)]
    await first.kill()
    await second.kill()


@in_skipped_time
async def test_a_leader_that_ends_well_lets_the_next_one_in_at_once_with_a_higher_epoch() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    await asyncio.sleep(1)
    second = Candidate(server, "two")
    first.ended.set()
    await first.task
    await asyncio.sleep(4)
    assert second.leads
    assert server.holders == [("one", 1), ("", 1), ("two", 2)]
    await second.kill()


@in_skipped_time
async def test_a_leader_that_cannot_renew_stops_before_another_one_may_start() -> None:
    server, loop = LeaseServer(), asyncio.get_running_loop()
    first = Candidate(server, "one")
    await asyncio.sleep(5)
    broken_at = loop.time()
    server.broken = True
    with pytest.raises(LeadershipLost):
        await first.task
    assert loop.time() - broken_at < Terms().duration_s
    assert not first.leads
    server.broken = False
    second = Candidate(server, "two")
    await asyncio.sleep(Terms().duration_s - 1)
    assert not second.leads, "a fresh candidate cannot know how old the last sign of life is"
    await asyncio.sleep(5)
    assert second.leads
    assert server.holders[-1] == ("two", 2)
    await second.kill()


@in_skipped_time
async def test_a_short_interruption_does_not_cost_the_lead() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    for _ in range(10):
        server.broken = True
        await asyncio.sleep(6)
        server.broken = False
        await asyncio.sleep(6)
    assert first.leads
    assert server.holders == [("one", 1)]
    await first.kill()


@in_skipped_time
async def test_renewals_whose_answers_are_lost_are_found_to_be_ours() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    await asyncio.sleep(5)
    server.deaf = True
    await asyncio.sleep(5)
    server.deaf = False
    await asyncio.sleep(30)
    assert first.leads
    await first.kill()


@in_skipped_time
async def test_a_lease_that_was_taken_with_a_lost_answer_is_not_waited_for() -> None:
    server = LeaseServer()
    server.deaf = True
    first = Candidate(server, "one")
    await asyncio.sleep(1)
    assert server.holders == [("one", 1)]
    assert not first.leads
    server.deaf = False
    await asyncio.sleep(Terms().retry_s * 2)
    assert first.leads
    assert server.holders[-1] == ("one", 2), "of an epoch of its own"
    await first.kill()


@in_skipped_time
async def test_a_leader_learns_from_the_lease_that_it_was_replaced() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    await asyncio.sleep(5)
    assert server.lease is not None
    server._store({**server.lease, "spec": {**server.lease["spec"], "holderIdentity": "thief", "leaseTransitions": 2}})
    with pytest.raises(LeadershipLost, match="thief"):
        await first.task
    assert server.lease["spec"]["holderIdentity"] == "thief"


@in_skipped_time
async def test_somebody_elses_note_on_the_lease_does_not_cost_the_lead() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    await asyncio.sleep(5)
    assert server.lease is not None
    server._store({**server.lease, "metadata": {**server.lease["metadata"], "annotations": {"a": "b"}}})
    await asyncio.sleep(30)
    assert first.leads
    await first.kill()


@in_skipped_time
async def test_the_epoch_does_not_decrease_when_the_lease_is_deleted() -> None:
    server = LeaseServer()
    first = Candidate(server, "one", epoch_floor=lambda: 41)
    await asyncio.sleep(5)
    assert first.leadership is not None
    assert first.leadership.epoch == 42
    server.lease = None
    with pytest.raises(LeadershipLost, match="nobody"):
        await first.task
    second = Candidate(server, "two", epoch_floor=lambda: 42)
    await asyncio.sleep(5)
    assert server.holders[-1] == ("two", 43)
    await second.kill()


@in_skipped_time
async def test_of_many_candidates_exactly_one_wins_each_epoch() -> None:
    server = LeaseServer()
    candidates = [Candidate(server, f"c{i}") for i in range(8)]
    for _ in range(5):
        await asyncio.sleep(60)
        leaders = [each for each in candidates if each.leads]
        assert len(leaders) == 1
        candidates.remove(leaders[0])
        await leaders[0].kill()
    epochs = [epoch for holder, epoch in server.holders if holder]
    assert epochs == [1, 2, 3, 4, 5]
    for each in candidates:
        await each.kill()


@in_skipped_time
async def test_the_door_of_a_lost_leader_is_shut() -> None:
    clock = LoopClock()
    leadership = Leadership(3, clock, clock.monotonic() + 10)
    door = Door(LeaseServer(), random.Random(1), field_manager="x", may_write=leadership.check)
    await door.create(REF, {"spec": {"holderIdentity": "", "leaseTransitions": 1}})
    await asyncio.sleep(10)
    with pytest.raises(LeadershipLost, match="epoch 3"):
        await door.create(REF, {})


def test_terms_that_would_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="renew_deadline_s"):
        Terms(duration_s=10, renew_deadline_s=10)
