"""Times as the API writes them."""

from __future__ import annotations

from datetime import datetime

from kube_embedded.base.generated_metadata import rfc3339

__all__ = ["micro_time", "parse_time", "rfc3339"]


def parse_time(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.fromisoformat(text).timestamp() if text else None


def micro_time(seconds: float) -> str:
    """A time with microseconds, as Leases have it."""
    return f"{rfc3339(seconds)[:-1]}.{int(seconds % 1 * 1_000_000):06d}Z"
