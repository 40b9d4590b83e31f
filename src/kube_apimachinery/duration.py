"""Durations as Go writes them (`4h30m`, `1.5s`, `100ms`), as whole nanoseconds.

Seconds as floats are offered for timers only; decisions compare nanoseconds.
"""

from __future__ import annotations

import re
from functools import lru_cache

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_UNITS = {"ns": 1, "us": MICROSECOND, "µs": MICROSECOND, "μs": MICROSECOND, "ms": MILLISECOND}
_UNITS |= {"s": SECOND, "m": MINUTE, "h": HOUR}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LIMIT_NS = 2**63 - 1
_MOST_DIGITS = 19
"""Of a whole number that can stand for a duration, and of a fraction that can change one."""


class DurationError(ValueError):
    """The text is not a duration."""


@lru_cache(maxsize=1024)
def nanoseconds(text: str) -> int:
    """`nanoseconds("4h30m")`; a number without a unit is refused, except 0."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    total, position = 0, 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or not (match[1] or match[2]):
            raise _refusal(text, rest[position:])
        total += _amount(match[1], match[2] or "", _UNITS[match[3]])
        position = match.end()
    if not rest or total > _LIMIT_NS:
        raise DurationError(f'time: invalid duration "{text}"')
    return sign * total


def seconds(text: str) -> float:
    """For timers: `seconds("1m30s") == 90.0`."""
    return nanoseconds(text) / SECOND


def format_ns(total_ns: int) -> str:
    """Back to text, as Kubernetes stores it: `4h30m0s`, `1.5s`, `100ms`, `0s`."""
    sign, rest = ("-", -total_ns) if total_ns < 0 else ("", total_ns)
    if rest < SECOND:
        return sign + _below_a_second(rest)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    shown = f"{_decimal(rest, SECOND)}s"
    if hours or minutes:
        shown = f"{minutes}m{shown}"
    return f"{sign}{hours}h{shown}" if hours else sign + shown


def _amount(whole: str, fraction: str, unit: int) -> int:
    """Takes no longer for a longer text: `int` refuses thousands of digits, and more of them change nothing."""
    whole, fraction = whole.lstrip("0"), fraction[:_MOST_DIGITS]
    if len(whole) > _MOST_DIGITS:
        return _LIMIT_NS + 1
    scale: int = 10 ** len(fraction)
    return int(whole + fraction or "0") * unit // scale


def _below_a_second(rest: int) -> str:
    if rest == 0:
        return "0s"
    if rest < MICROSECOND:
        return f"{rest}ns"
    if rest < MILLISECOND:
        return f"{_decimal(rest, MICROSECOND)}µs"
    return f"{_decimal(rest, MILLISECOND)}ms"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    places = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{places}"


def _refusal(text: str, rest: str) -> DurationError:
    match = re.match(r"[0-9]*\.?[0-9]+([^0-9.]*)", rest)
    if match is None:
        return DurationError(f'time: invalid duration "{text}"')
    if match[1] == "":
        return DurationError(f'time: missing unit in duration "{text}"')
    return DurationError(f'time: unknown unit "{match[1]}" in duration "{text}"')
