"""Cron schedules, read only as far as needed to say what is wrong with one."""

from __future__ import annotations

_WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: index + 1 for index, name in enumerate(_MONTHS)}),
    (0, 6, {name: index for index, name in enumerate(_DAYS)}),
)


class _Wrong(ValueError):
    """The schedule cannot be read."""


def complaint(schedule: str) -> str:
    """What is wrong with a schedule, in the words of the parser that Kubernetes uses; empty when nothing is."""
    if schedule.startswith("@"):
        known = schedule in _WORDS or schedule.startswith("@every ")
        return "" if known else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_BOUNDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for text, (low, high, names) in zip(fields, _BOUNDS, strict=True):
            for part in text.split(","):
                _check_part(part, low, high, names)
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _check_part(part: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = part.split("/")
    ends = span.split("-")
    if len(steps) > 1:
        raise _Wrong(f"too many slashes: {part}")
    if len(ends) > 2:
        raise _Wrong(f"too many hyphens: {part}")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number(ends[0], names)
        end = _number(ends[1], names) if len(ends) == 2 else high if steps else start
    if steps and _number(steps[0], {}) == 0:
        raise _Wrong(f"step of range should be a positive number: {part}")
    if start < low:
        raise _Wrong(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise _Wrong(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise _Wrong(f"beginning of range ({start}) beyond end of range ({end}): {part}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.lstrip("+-").isdigit()):
        raise _Wrong(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise _Wrong(f"negative number ({number}) not allowed: {text}")
    return number
