"""The embedded server put together for use: tokens, durability, our converters and rules."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kube_apimachinery.admission import AdmissionPlugin
from kube_apimachinery.clock import Clock, Dice
from kube_embedded.access.tokens import ServiceAccountTokens, create_key
from kube_embedded.base.identity import AnonymousAccess, Authenticator, Identity, StaticTokens
from kube_embedded.base.resource import Converter
from kube_embedded.base.store import SqliteJournal
from kube_embedded.server.api_server import ApiServer

_ISSUER = "https://kubernetes.default.svc"


class WallClock:
    """The machine's time."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to build a server. Without tokens, whoever reaches it over loopback is its admin."""

    tokens: Mapping[str, Identity] | None = None
    nobody: AnonymousAccess = AnonymousAccess.ADMIN_ON_LOOPBACK
    data_dir: Path | None = None
    plugins: Sequence[AdmissionPlugin] = ()
    converters: Mapping[tuple[str, str], Converter] | None = None


def build(options: ServerOptions, clock: Clock | None = None, dice: Dice | None = None) -> ApiServer:
    """A server that is not started yet."""
    server: ApiServer | None = None

    def exists(namespace: str, name: str, uid: str) -> bool:
        found = server.kernel.store.get("/serviceaccounts", namespace, name) if server is not None else None
        return found is not None and found.uid == uid

    accounts = ServiceAccountTokens(_signing_key(options.data_dir), _ISSUER, exists=exists)
    sources = (StaticTokens(options.tokens or {}), accounts)
    server = ApiServer(
        clock or WallClock(),
        dice or random.Random(),
        plugins=options.plugins,
        converters=options.converters,
        authenticator=Authenticator(sources, options.nobody),
        journal=SqliteJournal(options.data_dir) if options.data_dir is not None else None,
        tokens=accounts,
    )
    return server


def _signing_key(data_dir: Path | None) -> bytes:
    """Kept beside the data, so that tokens outlive a restart as the objects do."""
    if data_dir is None:
        return create_key()
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / "service-account.key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(create_key())
    return path.read_bytes()
