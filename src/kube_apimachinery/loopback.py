"""Which hosts are this machine's own: only there may anything be served without further proof."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Of a name or an address to listen on; any name but localhost is not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
