"""The connection of a pod to the API server of its own cluster: service account token, CA and environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from spinney.api.clock import Clock
from spinney.drive.client.connection import Connection
from spinney.drive.client.credentials import TokenFile
from spinney.drive.client.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(env: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> bool:
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()


def in_cluster_connection(
    clock: Clock, env: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT
) -> Connection:
    """Raises `ConfigError` outside of a pod."""
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
