"""Where pages are served and who may see them, as it was told. What is wrong with it is said before anything starts."""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass
from pathlib import Path

from kube_apimachinery.loopback import is_loopback
from spinney.whatif.inputs.operator_settings import ConfigurationError

SHORTEST_TOKEN = 16
DEFAULT_PORT = 8088


@dataclass(frozen=True, slots=True)
class DashboardOptions:
    """Where the pages are served. `port` None: the usual one, or a free one where that is taken.

    `token_file`: its content is asked for; without it a token is asked for anywhere but on loopback.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    token_file: Path | None = None

    def token(self) -> str:
        """Empty on loopback, unless a file is named; generated where there is none."""
        if self.token_file is not None:
            return _read_token(self.token_file)
        return "" if is_loopback(self.host) else secrets.token_urlsafe(24)


def address_of(text: str) -> tuple[str, int]:
    """HOST:PORT, [HOST]:PORT of IPv6, or :PORT, which is loopback."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    known = not bare or bare == "localhost" or _is_address(bare)
    if not colon or not port.isdecimal() or int(port) > 65535 or not known or (":" in bare and bare == host):
        raise ConfigurationError(f"--address {text}: HOST:PORT is expected, HOST being an IP address or localhost")
    return bare or "127.0.0.1", int(port)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"--token-file {path}: cannot be read: {reason}") from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            f"--token-file {path}: a token has at least {SHORTEST_TOKEN} printable characters, found {len(token)}"
        )
    return token
