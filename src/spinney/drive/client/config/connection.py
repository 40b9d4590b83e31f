"""How to reach and authenticate to one API server: the result of a kubeconfig or of the in-cluster environment."""

from __future__ import annotations

from dataclasses import dataclass, field

from spinney.drive.client.config.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Connection:
    """Server address, CA, credentials and the default namespace."""

    server: str
    credentials: Credentials = field(repr=False)
    ca: bytes | None = None
    verify: bool = True
    tls_server_name: str | None = None
    namespace: str = "default"
    source: str = ""
