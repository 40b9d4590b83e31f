"""Fixtures of the contract tests alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster_kit.space import Space
from cluster_kit.webhook import Webhooks, WebhookServer


@pytest.fixture(scope="session")
def _webhook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path_factory.mktemp("webhook"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def webhooks(_webhook_server: WebhookServer, space: Space, cluster: Space, unique: str) -> Webhooks:
    for remembered in (_webhook_server.judges, _webhook_server.raw, _webhook_server.asked):
        remembered.clear()
    return Webhooks(_webhook_server, space, cluster, unique)
