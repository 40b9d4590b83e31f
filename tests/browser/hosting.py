"""Pages over a world of values, served in a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from cluster_kit.loops import running
from spinney.serve.dashboard.data_sources import Questions
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.server import serving
from unit.dashboard.world import World


@dataclass(frozen=True)
class Hosted:
    """`do`: change the world where the pages look at it."""

    url: str
    world: World
    do: Callable[[Callable[[], None]], None]


@contextmanager
def hosted(world: World, questions: Questions | None = None, token: str = "") -> Iterator[Hosted]:
    with running(_served(world, questions or Questions(), token)) as found:
        yield found


@asynccontextmanager
async def _served(world: World, questions: Questions, token: str) -> AsyncIterator[Hosted]:
    loop = asyncio.get_running_loop()

    def do(change: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(change)

    async with serving(Model(world.views), questions, token=token) as url:
        yield Hosted(url, world, do)
