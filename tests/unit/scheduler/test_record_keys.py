"""The keys that plans are signed with: one Secret, filled once, with the rights that the scheduler has."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog

from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import SCHEDULER_RECORDS
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ConfigError
from spinney.drive.scheduler.execution.signing_keys import SECRETS, find_record_keys
from spinney.sim.event_loop import Sim, run
from spinney.sim.faults import Fault, FaultyTransport, Schedule
from spinney.sim.stack import Parts
from spinney.sim.world import World

Json = dict[str, Any]
REF = SECRETS.ref(SCHEDULER_RECORDS, NAMESPACE)


def in_cluster(scenario: Callable[[World], Awaitable[None]]) -> None:
    """As installed: with the Secret as it is shipped, and nobody who uses it yet."""

    async def main(sim: Sim) -> None:
        async with World(sim.clock, sim.dice, Parts(controllers=())) as world:
            await scenario(world)

    run(main, limit_s=1000)


async def keys_of(world: World, letter: bytes, transport: Any = None) -> tuple[bytes, ...]:
    """What a scheduler finds that would draw a key of this letter."""
    inward = transport or world.as_role("scheduler")
    door = Door(inward, world.dice, field_manager="spinney-scheduler")
    return await find_record_keys(
        ApiClient(inward, world.dice), door, NAMESPACE, world.dice, lambda size: letter * size
    )


async def put(world: World, **data: bytes | None) -> None:
    encoded = {
        name.replace("_", "-"): b64encode(key).decode() if key is not None else None for name, key in data.items()
    }
    written(await world.door.merge_patch(REF, {"data": encoded}, ANY))


def test_the_first_scheduler_fills_the_secret_and_every_other_one_finds_the_same_key() -> None:
    async def scenario(world: World) -> None:
        assert await keys_of(world, b"a") == (b"a" * 32,)
        assert await keys_of(world, b"b") == (b"a" * 32,)

    in_cluster(scenario)


def test_schedulers_that_begin_at_once_agree() -> None:
    async def scenario(world: World) -> None:
        found = await asyncio.gather(*(keys_of(world, bytes([letter])) for letter in b"abcdef"))
        assert len(set(found)) == 1

    in_cluster(scenario)


def test_a_key_whose_writing_was_not_answered_is_the_one_that_is_used() -> None:
    async def scenario(world: World) -> None:
        rates = {Fault.TIMEOUT_AFTER: 0.7}
        faulty = FaultyTransport(world.as_role("scheduler"), world.dice, Schedule(rates=rates))
        assert await keys_of(world, b"a", faulty) == await keys_of(world, b"b")

    in_cluster(scenario)


def test_a_previous_key_verifies_and_the_new_one_signs() -> None:
    async def scenario(world: World) -> None:
        await put(world, key=b"n" * 32, previous_key=b"o" * 40)
        assert await keys_of(world, b"a") == (b"n" * 32, b"o" * 40)

    in_cluster(scenario)


def test_a_secret_that_was_emptied_gets_another_key() -> None:
    async def scenario(world: World) -> None:
        await keys_of(world, b"a")
        await put(world, key=None)
        assert await keys_of(world, b"b") == (b"b" * 32,)

    in_cluster(scenario)


def test_a_newest_key_that_is_too_short_is_told_and_replaced() -> None:
    async def scenario(world: World) -> None:
        await put(world, key=b"short")
        with structlog.testing.capture_logs() as told:
            assert await keys_of(world, b"a") == (b"a" * 32,)
        assert "found 5 bytes, expected 32 or more" in [each.get("problem") for each in told]
        assert await keys_of(world, b"b") == (b"a" * 32,)

    in_cluster(scenario)


def test_a_previous_key_that_is_too_short_is_told_and_not_used() -> None:
    async def scenario(world: World) -> None:
        await put(world, key=b"n" * 32, previous_key=b"short")
        with structlog.testing.capture_logs() as told:
            assert await keys_of(world, b"a") == (b"n" * 32,)
        assert [each["field"].rpartition(" ")[2] for each in told] == ["data.previous-key"]

    in_cluster(scenario)


def test_where_the_secret_is_not_there_and_can_not_be_made_that_is_said() -> None:
    async def scenario(world: World) -> None:
        await world.delete("Secret", SCHEDULER_RECORDS, NAMESPACE)
        with pytest.raises(ConfigError, match=r"is not there and can not be made .*`spinney manifests rbac` first"):
            await keys_of(world, b"a")
        assert world.refusals.found
        world.refusals.found.clear()

    in_cluster(scenario)


def test_an_administrator_who_runs_a_scheduler_by_hand_needs_no_secret_beforehand() -> None:
    async def scenario(world: World) -> None:
        await world.delete("Secret", SCHEDULER_RECORDS, NAMESPACE)
        assert await keys_of(world, b"a", world.transport("admin")) == (b"a" * 32,)
        assert await keys_of(world, b"b") == (b"a" * 32,)

    in_cluster(scenario)
