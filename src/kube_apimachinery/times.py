"""Times as Kubernetes writes them: RFC 3339 in UTC, whole seconds, or microseconds where a field asks for them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def format_time(seconds: float) -> str:
    """Seconds since the epoch as a time of the API."""
    return _formatted(int(seconds))


@lru_cache(maxsize=256)  # much of what is written at once has the same second
def _formatted(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """A time with microseconds, as Leases have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds(text: str | None) -> float:
    """A time of the API as seconds since the epoch; 0 if it is missing."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0
