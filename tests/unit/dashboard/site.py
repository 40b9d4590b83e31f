"""The pages without a socket."""

from __future__ import annotations

import httpx

from spinney.serve.dashboard.application import application
from spinney.serve.dashboard.guarding import Doors
from spinney.serve.dashboard.keeping import Kept
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.pages import Desk
from spinney.serve.dashboard.seeing import Questions
from spinney.serve.dashboard.streams import Streams
from unit.dashboard.world import World

URL = "http://127.0.0.1:8088"


def desk_of(world: World, questions: Questions | None = None) -> Desk:
    model = Model(world.views)
    return Desk(model, questions or Questions(), Kept(model))


def site(world: World, questions: Questions | None = None, token: str = "") -> httpx.AsyncClient:
    desk = desk_of(world, questions)
    app = application(desk, Streams(desk.model), Doors(token))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL)
