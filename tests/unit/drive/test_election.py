"""Lease election: one leader at a time by the clock, epochs that never decrease, and a loser that stops."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
import structlog

from spinney.drive.apply.door import Door
from spinney.drive.client.http.transport import Response, TransportTimeout
from spinney.drive.election.leader_election import (
    LEASES,
    Candidacy,
    Election,
    Leadership,
    LeadershipLost,
    LeaseSettings,
    RenewalLoop,
    WorkDidNotEnd,
)
from unit.drive.drive_kit import HASTY, Chunks, LoopClock, as_json, in_skipped_time, reader, refusal, reply

REF = LEASES.ref("scheduler", "kube-system")


class LeaseServer:
    """One Lease with compare-and-swap. `broken` loses requests, `deaf` carries them out and loses the answer.

    `refuses`: what it says to every write. `watched`: whether it may be. `deaf_to`: whose writes are lost.
    """

    def __init__(self) -> None:
        self.refuses: tuple[int, str, str] | None = None
        self.watched = False
        self.deaf_to = ""
        self.asked = 0
        self._watches: list[asyncio.Queue[bytes]] = []
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken = False
        self.deaf = False
        self.holders: list[tuple[str, int]] = []

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> Response:
        self.asked += 1
        await asyncio.sleep(0.01)
        sent = msgspec.json.decode(body) if body else {}
        if self.broken or (self.deaf_to and sent.get("spec", {}).get("holderIdentity") == self.deaf_to):
            raise TransportTimeout("lost")
        if method != "GET" and self.refuses is not None:
            return refusal(*self.refuses)
        answer = self._carry_out(method, sent)
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
                return self.store({**sent, "metadata": {**sent["metadata"], "uid": f"u{self.version}"}})
            case "POST", _:
                return refusal(409, "AlreadyExists")
            case "PATCH", None:
                return refusal(404, "NotFound")
            case "PATCH", lease:
                assert lease is not None
                if sent["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
                    return refusal(409, "Conflict")
                return self.store({**lease, "spec": {**lease["spec"], **sent["spec"]}})
        raise AssertionError(method)

    def store(self, lease: dict[str, Any]) -> Response:
        self.version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        spec = self.lease["spec"]
        holder = (spec["holderIdentity"], spec["leaseTransitions"])
        if not self.holders or self.holders[-1] != holder:
            self.holders.append(holder)
        for watch in self._watches:
            watch.put_nowait(as_json({"type": "MODIFIED", "object": self.lease}) + b"\n")
        return reply(self.lease)

    @asynccontextmanager
    async def stream(self, path: str, **_: Mapping[str, str] | None) -> AsyncIterator[Any]:
        if not self.watched:
            yield Chunks([as_json({"kind": "Status", "code": 403, "message": "you may not watch"})], status=403)
            return
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches.append(lines)
        yield Lines(lines)

    async def close(self) -> None:
        pass


class Lines:
    """A watch that tells every change from now on."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, lines: asyncio.Queue[bytes]) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._lines.get()


class Candidate:
    def __init__(self, server: LeaseServer, name: str, *, watches: bool = False, **renewal: Any) -> None:
        dice = random.Random(name)
        self.door = Door(server, dice, field_manager=name, retry_policy=HASTY)
        self.election = Election(
            reader(server),
            self.door,
            Candidacy(REF, name, watches=watches),
            LoopClock(),
            dice,
            RenewalLoop(**renewal),
        )
        self.leadership: Leadership | None = None
        self.began, self.ended = asyncio.Event(), asyncio.Event()
        self.over = False
        self.task: asyncio.Task[None] = asyncio.create_task(self.election.run(self.lead))

    async def lead(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.began.set()
        self.over = False
        try:
            await self.ended.wait()
        finally:
            await asyncio.sleep(0)
            self.over = True

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
    assert loop.time() - broken_at < LeaseSettings().duration_s
    assert not first.leads
    server.broken = False
    second = Candidate(server, "two")
    await asyncio.sleep(LeaseSettings().duration_s - 1)
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
    await asyncio.sleep(LeaseSettings().retry_s * 2)
    assert first.leads
    assert server.holders[-1] == ("one", 2), "of an epoch of its own"
    await first.kill()


@in_skipped_time
async def test_a_leader_learns_from_the_lease_that_it_was_replaced() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    await asyncio.sleep(5)
    assert server.lease is not None
    server.store({**server.lease, "spec": {**server.lease["spec"], "holderIdentity": "thief", "leaseTransitions": 2}})
    with pytest.raises(LeadershipLost, match="thief"):
        await first.task
    assert server.lease["spec"]["holderIdentity"] == "thief"


@in_skipped_time
async def test_somebody_elses_note_on_the_lease_does_not_cost_the_lead() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    await asyncio.sleep(5)
    assert server.lease is not None
    server.store({**server.lease, "metadata": {**server.lease["metadata"], "annotations": {"a": "b"}}})
    await asyncio.sleep(30)
    assert first.leads
    await first.kill()


@in_skipped_time
async def test_a_candidate_that_saw_the_lease_counts_on_when_it_is_deleted() -> None:
    server = LeaseServer()
    first, second = Candidate(server, "one"), Candidate(server, "two")
    await asyncio.sleep(5)
    uid = first.leadership.lease_uid if first.leadership else ""
    server.lease = None
    with pytest.raises(LeadershipLost, match="nobody"):
        await first.task
    assert not second.leads, "the last holder has its time"
    await asyncio.sleep(LeaseSettings().duration_s)
    assert second.leadership is not None
    assert server.holders[-1] == ("two", 2)
    assert second.leadership.lease_uid not in ("", uid), "epochs of another Lease are told from those of the first"
    await second.kill()


@pytest.mark.parametrize("found", [2**31 - 1, 4_000_000_000, -1])
@in_skipped_time
async def test_an_epoch_that_cannot_be_counted_up_is_told_and_nobody_leads_until_the_lease_is_gone(found: int) -> None:
    server = LeaseServer()
    server.store({"metadata": {"uid": "u"}, "spec": {"holderIdentity": "", "leaseTransitions": found}})
    with structlog.testing.capture_logs() as logs:
        only = Candidate(server, "one")
        await asyncio.sleep(60)
    assert not only.leads
    assert "leaseTransitions: found" in only.election.trouble()
    assert only.election.trouble().startswith("no process leads: ")
    assert len([each for each in logs if each["log_level"] == "warning"]) == 1
    server.lease = None
    await asyncio.sleep(5)
    assert only.leads, "the count begins anew with another Lease"
    assert only.election.trouble() == ""
    assert server.holders[-1] == ("one", 1)
    await only.kill()


@in_skipped_time
async def test_a_refused_lease_write_is_told_once_per_reason_and_is_not_ready_after_a_while() -> None:
    server = LeaseServer()
    server.refuses = (422, "Invalid", "leaseTransitions is no int32")
    with structlog.testing.capture_logs() as logs:
        only = Candidate(server, "one")
        await asyncio.sleep(1)
        assert only.election.trouble() == "", "it has only begun"
        await asyncio.sleep(60)
        assert "no process leads: " in only.election.trouble()
        assert "422 leaseTransitions is no int32" in only.election.trouble()
        server.refuses = (403, "Forbidden", "not for you")
        await asyncio.sleep(60)
        assert "403 not for you" in only.election.trouble()
    told = [each["problem"] for each in logs if each["log_level"] == "warning"]
    assert [text.rpartition("taken: ")[2] for text in told] == ["422 leaseTransitions is no int32", "403 not for you"]
    server.refuses = None
    await asyncio.sleep(5)
    assert (only.leads, only.election.trouble()) == (True, "")
    await only.kill()


@in_skipped_time
async def test_a_leader_whose_renewals_are_refused_says_so_and_ends_its_term() -> None:
    server = LeaseServer()
    only = Candidate(server, "one")
    await asyncio.sleep(5)
    server.refuses = (403, "Forbidden", "not any more")
    with structlog.testing.capture_logs() as logs, pytest.raises(LeadershipLost):
        await only.task
    assert [each["error"] for each in logs if each["log_level"] == "warning"] == ["403 not any more"]
    await asyncio.sleep(60)
    assert "403 not any more" in only.election.trouble()


@in_skipped_time
async def test_standing_by_is_ready_while_somebody_renews_and_not_when_nobody_does() -> None:
    server = LeaseServer()
    first = Candidate(server, "one")
    await asyncio.sleep(1)
    second = Candidate(server, "two", stuck=lambda: "it never leads")
    assert "was not read yet" in second.election.trouble()
    await asyncio.sleep(1)
    for _ in range(20):
        assert second.election.trouble() == ""
        await asyncio.sleep(3)
    await first.kill()
    await asyncio.sleep(3 * LeaseSettings().duration_s)
    assert second.election.trouble() == "no process leads: it never leads"
    await second.kill()


@in_skipped_time
async def test_a_lease_that_nobody_can_read_is_not_ready() -> None:
    server = LeaseServer()
    server.broken = True
    only = Candidate(server, "one")
    await asyncio.sleep(60)
    assert "out of reach" in only.election.trouble()
    await only.kill()


@in_skipped_time
async def test_a_leader_that_is_stuck_gives_its_lease_back_and_another_one_leads_at_once() -> None:
    server, stuck = LeaseServer(), [""]
    first = Candidate(server, "one", stuck=lambda: stuck[0])
    await asyncio.sleep(5)
    second = Candidate(server, "two")
    stuck[0] = "the main loop has not run for 16 s"
    with pytest.raises(LeadershipLost, match="given up: the main loop has not run for 16 s"):
        await first.task
    assert not first.leads
    await asyncio.sleep(LeaseSettings().retry_s * 2)
    assert second.leads
    await second.kill()


@in_skipped_time
async def test_a_lost_term_is_over_before_one_may_stand_again() -> None:
    server = LeaseServer()
    only = Candidate(server, "one")
    await asyncio.sleep(5)
    server.broken = True
    with pytest.raises(LeadershipLost):
        await only.task
    assert only.over
    server.broken = False
    again = asyncio.create_task(only.election.run(only.lead))
    await asyncio.sleep(5)
    assert only.leads
    assert server.holders[-1] == ("one", 2)
    again.cancel()
    await asyncio.wait([again])


@in_skipped_time
async def test_work_that_does_not_end_is_a_reason_to_end_the_process() -> None:
    server, ends = LeaseServer(), asyncio.Event()

    async def stubborn(leadership: Leadership) -> None:
        while not ends.is_set():
            with suppress(asyncio.CancelledError):
                await ends.wait()

    only = Candidate(server, "one")
    await only.kill()
    standing = asyncio.create_task(only.election.run(stubborn))
    await asyncio.sleep(5)
    server.broken = True
    with pytest.raises(WorkDidNotEnd):
        await standing
    ends.set()


@pytest.fixture
def unretrieved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the loops of a test say of exceptions that nobody has looked at."""
    told: list[str] = []

    def note(_: asyncio.BaseEventLoop, context: dict[str, Any]) -> None:
        told.append(context["message"])

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_exception_handler", note)
    return told


def test_the_error_of_work_that_is_called_off_with_its_election_is_retrieved(unretrieved: list[str]) -> None:
    @in_skipped_time
    async def scenario() -> None:
        began = asyncio.Event()

        async def fails_at_its_end(leadership: Leadership) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                leadership.check()
                raise KeyError("at its end")

        only = Candidate(LeaseServer(), "one")
        await only.kill()
        standing = asyncio.create_task(only.election.run(fails_at_its_end))
        await began.wait()
        standing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await standing

    scenario()
    gc.collect()
    assert unretrieved == []


def test_the_error_of_work_that_ends_after_it_was_given_up_is_retrieved(unretrieved: list[str]) -> None:
    @in_skipped_time
    async def scenario() -> None:
        server, ends = LeaseServer(), asyncio.Event()

        async def stubborn(leadership: Leadership) -> None:
            while not ends.is_set():
                with suppress(asyncio.CancelledError):
                    await ends.wait()
            leadership.check()

        only = Candidate(server, "one")
        await only.kill()
        standing = asyncio.create_task(only.election.run(stubborn))
        await asyncio.sleep(5)
        server.broken = True
        with pytest.raises(WorkDidNotEnd):
            await standing
        ends.set()
        await asyncio.sleep(1)

    scenario()
    gc.collect()
    assert unretrieved == []


@in_skipped_time
async def test_a_mistake_while_the_lease_is_watched_is_told_and_the_lease_is_polled() -> None:
    class Failing(LeaseServer):
        def stream(self, path: str, **_: Any) -> Any:
            raise KeyError("a mistake of ours")

    with structlog.testing.capture_logs() as told:
        first = Candidate(server := Failing(), "one", watches=True)
        await first.began.wait()
        second = Candidate(server, "two", watches=True)
        await asyncio.sleep(5)
        await first.kill()
        await second.began.wait()
        await second.kill()
    errors = [each["error"] for each in told if each["log_level"] == "warning"]
    assert errors == ["KeyError('a mistake of ours')"]


@in_skipped_time
async def test_somebody_who_watches_takes_a_released_lease_within_a_tenth_of_a_second() -> None:
    server, loop = LeaseServer(), asyncio.get_running_loop()
    server.watched = True
    first = Candidate(server, "one", watches=True)
    await asyncio.sleep(5)
    second = Candidate(server, "two", watches=True)
    await asyncio.sleep(20)
    asked = server.asked
    await asyncio.sleep(20)
    assert server.asked - asked == pytest.approx(20 / LeaseSettings().retry_s, abs=1), "only the leader asks"
    first.ended.set()
    await first.task
    released = loop.time()
    await second.began.wait()
    assert loop.time() - released <= 0.1
    await second.kill()


@in_skipped_time
async def test_somebody_who_watches_takes_over_from_the_dead_when_their_time_is_over() -> None:
    server, loop = LeaseServer(), asyncio.get_running_loop()
    server.watched = True
    first, second = Candidate(server, "one", watches=True), Candidate(server, "two", watches=True)
    await asyncio.sleep(20)
    server.deaf_to = "one"
    dead = loop.time()
    with suppress(LeadershipLost):
        await first.task
    await second.began.wait()
    assert (
        LeaseSettings().duration_s - LeaseSettings().retry_s <= loop.time() - dead <= LeaseSettings().duration_s + 0.2
    )
    await second.kill()


@in_skipped_time
async def test_where_the_lease_may_not_be_watched_it_is_polled() -> None:
    server = LeaseServer()
    first, second = Candidate(server, "one", watches=True), Candidate(server, "two", watches=True)
    await asyncio.sleep(20)
    first.ended.set()
    await first.task
    await asyncio.sleep(LeaseSettings().retry_s * 2)
    assert second.leads
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
        LeaseSettings(duration_s=10, renew_deadline_s=10)
