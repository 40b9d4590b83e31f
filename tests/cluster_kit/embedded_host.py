"""The embedded server as a process of its own, with the controllers that the real control plane runs.

Run with one directory. Prints one line of JSON when it is ready; then obeys lines on standard input
(`forget REVISION`), answering each with `done`, and ends when standard input does.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import sys
from pathlib import Path

import structlog

from cluster_kit.users import USERS
from kube_apimachinery.system_clock import SystemClock
from kube_embedded.base.identity import MASTERS, AnonymousAccess, Identity
from kube_embedded.server.api_server import ApiServer
from kube_embedded.server.embedded import Listen, ServerOptions, build, listening
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.informers.cache import OwnWrites
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.sim.controllers.manager import Controllers
from spinney.sim.kubernetes.control_plane import write_certificates, write_kubeconfig
from spinney.sim.objects import Views
from spinney.sim.transport import InProcessTransport

CONTROLLERS = ("disruption", "job")


def log_plainly() -> None:
    """One line per event, tracebacks without the values of variables: bodies of requests can be huge."""
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def run_controllers(server: ApiServer) -> None:
    dice = random.Random(1)
    transport = InProcessTransport(server, Identity("controllers", groups=(MASTERS,)))
    own_writes = OwnWrites()
    client = ApiClient(transport, dice)
    door = Door(transport, dice, field_manager="kube-controller-manager", own_writes=own_writes)
    caches = SharedCaches(client, own_writes, dice)
    controllers = Controllers(Views(caches), door, client, SystemClock(), dice, CONTROLLERS)
    await asyncio.gather(caches.run(), controllers.run())


def forget(server: ApiServer, revision: int) -> None:
    for collection in server.kernel.store.collections.values():
        while collection.history and collection.history[0].revision <= revision:
            collection.history.popleft()
        collection.compacted = max(collection.compacted, revision)


async def main(directory: Path) -> None:
    log_plainly()
    certificates = write_certificates(directory)
    tokens = {name: secrets.token_urlsafe(24) for name in ("admin", *USERS)}
    groups = {"admin": (MASTERS,), **USERS}
    known = {tokens[name]: Identity(name, uid=name, groups=groups[name]) for name in tokens}
    server = build(ServerOptions(tokens=known, nobody=AnonymousAccess.ANONYMOUS))
    listen = Listen(certificate=certificates.server, key=certificates.server_key)
    async with listening(server, listen) as url:
        kubeconfig = directory / "kubeconfig"
        authority = certificates.authority
        write_kubeconfig(kubeconfig, name="embedded", url=url, authority=authority, user="admin", token=tokens["admin"])
        state = {"url": url, "authority": str(authority), "kubeconfig": str(kubeconfig), "tokens": tokens}
        controllers = asyncio.create_task(run_controllers(server))
        print(json.dumps(state), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            _, revision = line.split()
            forget(server, int(revision))
            print("done", flush=True)
        controllers.cancel()
        await asyncio.gather(controllers, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
