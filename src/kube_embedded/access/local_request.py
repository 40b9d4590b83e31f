"""Whether a request that came over loopback was sent by somebody on this machine, and not by a page in a browser.

Decides nothing about who that is or what they may do.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache


def is_local_request(headers: Mapping[str, str]) -> bool:
    """Whether a request over loopback was meant for us: a page in a browser may be somebody else's words.

    A page of another site says so by its Origin, or by a Host that was made to point here.
    """
    if "origin" in headers:
        return False
    return _is_local(headers.get("host", ""))


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
