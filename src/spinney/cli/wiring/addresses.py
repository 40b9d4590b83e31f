"""Names and addresses under which this machine can be reached.

Never sends anything: the kernel is asked which address it would send from.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket

_ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses of the documentation: routed as any other, used by nobody."""


def is_unspecified(host: str) -> bool:
    """Whether listening there means every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def reachable_host(host: str) -> str:
    """What to tell clients to connect to, for an address to listen on."""
    if not is_unspecified(host):
        return host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return _own_address(family) or ("::1" if ":" in host else "127.0.0.1")


def certificate_hosts(host: str) -> list[str]:
    """Every name that a certificate for this address should be good for; the one clients are told comes first."""
    names = [reachable_host(host), host, "localhost", "127.0.0.1", "::1", "kubernetes.default.svc"]
    if is_unspecified(host):
        names += [socket.gethostname(), *(_own_address(family) for family in _ELSEWHERE)]
    return list(dict.fromkeys(name for name in names if name))


def _own_address(family: socket.AddressFamily) -> str:
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_ELSEWHERE[family], 9))
        return str(probe.getsockname()[0])
    return ""
