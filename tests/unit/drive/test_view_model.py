"""INV11: folding whatever comes, in whatever way it comes, gives the same view as building it from a list."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from spinney.drive.backoff import Backoff
from spinney.drive.client.api import Selection
from spinney.drive.client.codec import WatchEvent, codec_for
from spinney.drive.client.informers.cache import Cache, Change
from spinney.drive.client.informers.watch import Watcher, WatchSettings
from unit.drive.drive_kit import THINGS, Thing, ThingServer, in_skipped_time, reader, thing

SEEDS = 200
STEPS = 100
NAMES = [f"t{i}" for i in range(8)]
COLORS = ["red", "green", "blue"]


class Mirror:
    """A subscriber that keeps its own copy: it must never drift from the cache, and never be told nonsense."""

    def __init__(self, cache: Cache[Thing]) -> None:
        self.items: dict[tuple[str, str], Thing] = {}
        cache.subscribe(self.note)

    def note(self, change: Change[Thing]) -> None:
        assert self.items.get(change.key) == change.old
        assert change.old is None or change.new is None or change.old.metadata.uid == change.new.metadata.uid
        if change.new is None:
            del self.items[change.key]
        else:
            self.items[change.key] = change.new


def a_cache() -> Cache[Thing]:
    return Cache(THINGS, indexes={"color": lambda item: (item.color,) if item.color else ()})


def check(cache: Cache[Thing], mirror: Mirror, truth: dict[tuple[str, str], Thing]) -> None:
    rebuilt = a_cache()
    rebuilt.fold([WatchEvent("ADDED", item) for item in truth.values()])
    keys = cache.keys()
    assert {key: cache.get(key) for key in keys} == truth == mirror.items
    for color in COLORS:
        assert cache.by("color", color) == rebuilt.by("color", color)


class World:
    """The truth, and the events it gave rise to since the last time the cache was told everything."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.truth: dict[tuple[str, str], Thing] = {}
        self.untold: list[WatchEvent[Thing]] = []
        self.told: list[WatchEvent[Thing]] = []
        self.version = 0

    def change(self) -> None:
        name = self.dice.choice(NAMES)
        key = ("ns", name)
        known = self.truth.get(key)
        self.version += 1
        if known is not None and self.dice.random() < 0.35:
            del self.truth[key]
            gone = thing(name, self.version, color=known.color, uid=known.metadata.uid)
            self.untold.append(WatchEvent("DELETED", gone))
            return
        uid = known.metadata.uid if known else f"uid-{self.version}"
        self.truth[key] = thing(name, self.version, color=self.dice.choice(COLORS), uid=uid)
        self.untold.append(WatchEvent("MODIFIED" if known else "ADDED", self.truth[key]))

    def tell(self, cache: Cache[Thing]) -> None:
        """All that is untold, in any order, with some of it and some of the past repeated."""
        batch = self.untold + [event for event in self.untold if self.dice.random() < 0.3]
        batch += [event for event in self.told[-10:] if self.dice.random() < 0.3]
        self.dice.shuffle(batch)
        cut = self.dice.randrange(len(batch) + 1)
        cache.fold(batch[:cut])
        cache.fold(batch[cut:])
        self.told += self.untold
        self.untold = []

    async def relist(self, cache: Cache[Thing]) -> None:
        """A list makes up for events that are lost for ever; sometimes it has to be started twice."""
        items = sorted(self.truth.values(), key=lambda item: item.metadata.name)
        if self.dice.random() < 0.3:
            cache.begin_list(str(self.version))
            cache.fold_page(items[: len(items) // 2])
        cache.begin_list(str(self.version))
        for start in range(0, len(items), 3):
            cache.fold_page(items[start : start + 3])
        await cache.end_list(str(self.version))
        self.told += self.untold
        self.untold = []


@pytest.mark.parametrize("part", range(4))
async def test_inv11_the_view_is_a_fold_whatever_is_repeated_reordered_or_listed_again(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        dice = random.Random(seed)
        world, cache = World(dice), a_cache()
        mirror = Mirror(cache)
        for _ in range(STEPS):
            match dice.random():
                case roll if roll < 0.6:
                    world.change()
                case roll if roll < 0.85:
                    world.tell(cache)
                    check(cache, mirror, world.truth)
                case roll if roll < 0.93:
                    world.tell(cache)
                    cache.bookmark(str(world.version))
                case _:
                    await world.relist(cache)
                    check(cache, mirror, world.truth)
        world.tell(cache)
        check(cache, mirror, world.truth)


@pytest.mark.parametrize("seed", range(60))
def test_inv11_a_watcher_ends_with_the_truth_however_its_connection_behaves(seed: int) -> None:
    run_broken_world(seed)


@in_skipped_time
async def run_broken_world(seed: int) -> None:
    dice = random.Random(seed)
    server, cache = ThingServer(dice, fault_rate=0.15), a_cache()
    mirror = Mirror(cache)
    watcher = Watcher(
        reader(server, page_limit=3), Selection(THINGS), codec_for(Thing), cache, dice, WatchSettings(Backoff(0.1, 1.0))
    )
    task = asyncio.create_task(watcher.run())
    for _ in range(STEPS):
        match dice.random():
            case roll if roll < 0.5:
                server.put(dice.choice(NAMES), dice.choice(COLORS))
            case roll if roll < 0.7:
                server.delete(dice.choice(NAMES))
            case roll if roll < 0.75:
                server.forget_history()
            case roll if roll < 0.8:
                server.cut_watches()
            case _:
                await asyncio.sleep(dice.random())
    server.fault_rate = 0.0
    server.put("last", "red")
    async with asyncio.timeout(1000):
        await cache.wait_for(str(server.version))
    check(cache, mirror, server.things)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
