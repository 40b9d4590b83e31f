"""How to reach one API server and who we are there: the result of reading a kubeconfig or of being in a pod."""

from __future__ import annotations

from dataclasses import dataclass, field

from spinney.drive.client.config.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Connection:
    """Server, trust, credentials, and the namespace meant when none is given."""

    server: str
    credentials: Credentials = field(repr=False)
    ca: bytes | None = None
    verify: bool = True
    tls_server_name: str | None = None
    namespace: str = "default"
    source: str = ""
