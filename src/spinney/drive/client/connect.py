"""From "which cluster" to a transport: the kubeconfig that counts, or the cluster we run in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from spinney.api.clock import Clock
from spinney.drive.client.connection import Connection
from spinney.drive.client.errors import ConfigError
from spinney.drive.client.http import HttpTransport
from spinney.drive.client.in_cluster import in_cluster_connection, is_in_cluster
from spinney.drive.client.kubeconfig import connection_of, kubeconfig_paths, read_kubeconfig


def find_connection(
    clock: Clock,
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
) -> Connection:
    """The kubeconfig given, that of KUBECONFIG, that of the home directory, else the cluster around us."""
    paths = kubeconfig_paths(kubeconfig, env)
    if paths:
        return connection_of(read_kubeconfig(paths), clock, context)
    if is_in_cluster(env):
        return in_cluster_connection(clock, env)
    raise ConfigError("no cluster: expected --kubeconfig, KUBECONFIG, ~/.kube/config or a service account in a pod")


def connect(connection: Connection, *, connections: int = 48) -> HttpTransport:
    """A transport to the server; nothing is opened before the first request."""
    return HttpTransport(connection, connections=connections)
