"""The pages without a socket."""

from __future__ import annotations

import httpx

from spinney.serve.dashboard.auth import AuthSettings
from spinney.serve.dashboard.boxes import RenderCache
from spinney.serve.dashboard.data_sources import Questions
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.page_handlers import PageContext
from spinney.serve.dashboard.server import application
from spinney.serve.dashboard.streams import Streams
from unit.dashboard.world import World

URL = "http://127.0.0.1:8088"


def desk_of(world: World, questions: Questions | None = None) -> PageContext:
    model = Model(world.views)
    return PageContext(model, questions or Questions(), RenderCache(model))


def site(world: World, questions: Questions | None = None, token: str = "") -> httpx.AsyncClient:
    desk = desk_of(world, questions)
    app = application(desk, Streams(desk.model), AuthSettings(token))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL)
