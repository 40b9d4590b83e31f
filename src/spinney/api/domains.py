"""The seven topology domains, broad to narrow (T1). Their order is defined here and nowhere else."""

from __future__ import annotations

DOMAINS = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
HOST = "host"
NUMA = "numa"

_BREADTH = {domain: index for index, domain in enumerate(DOMAINS)}


def is_domain(name: str) -> bool:
    return name in _BREADTH


def rank(domain: str) -> int:
    """0 for the broadest. A domain that admission would have refused is narrower than all that are known."""
    return _BREADTH.get(domain, len(_BREADTH))


def is_narrower(domain: str, than: str) -> bool:
    """Strictly narrower: a rack is narrower than a zone."""
    return rank(domain) > rank(than)
