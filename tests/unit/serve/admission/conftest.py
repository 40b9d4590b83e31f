"""A webhook behind real TLS, and chains that call it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from kube_apimachinery import tls
from kube_embedded.admission.chain import AdmissionChain, WebhookCaller
from kube_embedded.admission.webhook_client import HttpsPost
from unit.serve.admission.hook_kit import LEAF, Hook, MakeChain, compile_expression, lookup


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    app = web.Application()
    app.router.add_post("/{path}", hook.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.server_context(LEAF))
    await site.start()
    hook.port = runner.addresses[0][1]
    yield hook
    await runner.cleanup()


@pytest.fixture
async def make_chain() -> AsyncIterator[MakeChain]:
    """A chain over these webhooks; each list is one configuration's."""
    posts: list[HttpsPost] = []

    def make(
        mutating: Sequence[dict[str, Any]] = (), validating: Sequence[dict[str, Any]] = (), **options: Any
    ) -> AdmissionChain:
        post = HttpsPost(**{key: options.pop(key) for key in ("resolve",) if key in options})
        posts.append(post)
        plugins = options.pop("plugins", ())
        numbers = itertools.count(1)
        caller = WebhookCaller(post, compile_expression, lambda: f"uid-{next(numbers)}", lookup, **options)  # type: ignore[arg-type]
        chain = AdmissionChain(plugins, caller, lookup)  # type: ignore[arg-type]
        chain.set_configurations(_configuration(mutating), _configuration(validating))
        return chain

    yield make
    for post in posts:
        await post.close()


def _configuration(webhooks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"metadata": {"name": "configuration"}, "webhooks": list(webhooks)}] if webhooks else []
