"""Finds the cluster to connect to: from a kubeconfig, or from the service account of the pod we run in.

Never guesses: without a kubeconfig and outside of a pod it raises a ConfigError.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from kube_apimachinery.clock import Clock
from spinney.drive.client.api import ApiClient
from spinney.drive.client.config.connection import Connection
from spinney.drive.client.config.credentials import TokenFile
from spinney.drive.client.config.kubeconfig import connection_of, kubeconfig_paths, read_kubeconfig
from spinney.drive.client.errors import ConfigError
from spinney.drive.client.http.http_transport import HttpTransport
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.clock import SystemClock, system_dice

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(env: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> bool:
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()


def in_cluster_connection(
    clock: Clock, env: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection from the pod's service account. Raises `ConfigError` outside of a pod."""
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError("environment: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: expected both in a pod")
    namespace = directory / "namespace"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=TokenFile(directory / "token", clock),
        ca=_read(directory / "ca.crt"),
        namespace=_read(namespace).decode().strip() if namespace.exists() else "default",
        source=str(directory),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error


def find_connection(
    clock: Clock,
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
) -> Connection:
    """The connection of the given kubeconfig, of KUBECONFIG, of the home directory, else of the surrounding cluster."""
    paths = kubeconfig_paths(kubeconfig, env)
    if paths:
        return connection_of(read_kubeconfig(paths), clock, context)
    if is_in_cluster(env):
        return in_cluster_connection(clock, env)
    raise ConfigError("no cluster: expected --kubeconfig, KUBECONFIG, ~/.kube/config or a service account in a pod")


def connect(connection: Connection, *, connections: int = 48) -> HttpTransport:
    """A transport to the server; nothing is opened before the first request."""
    return HttpTransport(connection, connections=connections)


@asynccontextmanager
async def cluster_client(kubeconfig: Path | None, unreadable: Unreadable | None = None) -> AsyncIterator[ApiClient]:
    """A client of the cluster that `find_connection` finds, for one look at it; closed with the block."""
    transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig))
    try:
        yield ApiClient(transport, system_dice(), unreadable=unreadable)
    finally:
        await transport.close()
