"""The string formats that Kubernetes checks in custom resources, and regular expressions in the syntax of Go (RE2)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import lru_cache
from typing import Any, Protocol

import jsonschema_rs
import re2

# The string formats that Kubernetes checks in custom resources, each as a yes-or-no function.

_UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?%s-?%s-?[0-9a-f]{12}"
_HEX4, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST = re.compile(
    r"([^\W_]((-?[^\W_]{0,62})?)|([^\W_](([^\W_]|-){0,61}[^\W_])?\.)+[^\W\d_]{2,63})",
)
_CARD = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_GO_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_WORDED_DURATION = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_UNITS = ("ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "hr", "wk")
_UNIT_WORDS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)


def _pattern(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _is_ipv4(text: str) -> bool:
    if ":" in text:
        return "." in text and _is_ipv6(text)
    parts = text.split(".")
    return len(parts) == 4 and all(part.isdecimal() and len(part) <= 3 and int(part) < 256 for part in parts)


def _is_ipv6(text: str) -> bool:
    try:
        return ":" in text and "%" not in text and bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or len(bits) > 3 or not bits.isdecimal() or not bits.isascii() or str(int(bits)) != bits:
        return False
    if ":" in address:
        return _is_ipv6(address) and int(bits) <= 128
    return _is_ipv4(address) and int(bits) <= 32


def is_date(text: str) -> bool:
    try:
        return len(text) == 10 and text[4] == "-" and date.fromisoformat(text) is not None
    except ValueError:
        return False


def is_date_time(text: str) -> bool:
    day, separator, time = text.lower().partition("t")
    if not separator or not is_date(day):
        return False
    found = _TIME.fullmatch(time.partition("t")[0])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def is_duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    for _, unit in _WORDED_DURATION.findall(text):
        small = unit.lower()
        if small in _UNITS or small.startswith(_UNIT_WORDS):
            return True
    return False


def _is_host(text: str) -> bool:
    return (
        _HOST.fullmatch(text) is not None
        and len(text.encode()) <= 255
        and all(len(part.encode()) <= 63 for part in text.split("."))
    )


def _is_uri(text: str) -> bool:
    if any(char < " " or char == "\x7f" for char in text):
        return False
    return text.startswith("/") or re.match(r"[A-Za-z][-+.A-Za-z0-9]*:.", text) is not None


def _is_email(text: str) -> bool:
    if found := re.fullmatch(r"[^<>]*<([^<>]+)>", text):
        text = found[1]
    return re.fullmatch(r'("[^"]+"|[^\s@<>(),;:\\"\[\]]+)@[^\s@<>(),;:\\"]+', text) is not None


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(digit) * (2 if index % 2 else 1) for index, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _is_mac(text: str) -> bool:
    colons = re.fullmatch(r"[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}", text, re.IGNORECASE)
    long = re.fullmatch(r"[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\1){6}[0-9a-f]{2}", text, re.IGNORECASE)
    dots = re.fullmatch(r"[0-9a-f]{4}(\.[0-9a-f]{4}){2,3}", text, re.IGNORECASE)
    return bool(colons or long or dots)


_SHORT = _pattern(_LABEL)
_LONG = _pattern(rf"{_LABEL}(\.{_LABEL})*")
_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern("[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_host,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _pattern(_UUID % (_HEX4, _HEX4), re.IGNORECASE),
    "uuid3": _pattern(_UUID % ("3[0-9a-f]{3}", _HEX4), re.IGNORECASE),
    "uuid4": _pattern(_UUID % ("4[0-9a-f]{3}", _VARIANT), re.IGNORECASE),
    "uuid5": _pattern(_UUID % ("5[0-9a-f]{3}", _VARIANT), re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _pattern(
        r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*(,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*){2}\)"
    ),
    "byte": _pattern("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": is_date,
    "duration": is_duration,
    "datetime": is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _SHORT(text),
    "k8slongname": lambda text: len(text) <= 253 and _LONG(text),
}


def string_check(name: str) -> Callable[[str], bool] | None:
    """The check of a format by its name, with or without dashes; None for a format that is not checked."""
    return _CHECKS.get(name.replace("-", ""))


def effective(type_name: str, format_name: str) -> str:
    """The format as far as it counts for a type; empty where Kubernetes ignores it."""
    match type_name:
        case "" | "string":
            return format_name if string_check(format_name) else ""
        case "integer":
            return format_name if format_name in ("int32", "int64") else ""
        case "number":
            return format_name if format_name in ("float", "double") else ""
        case _:
            return ""


# Regular expressions in the syntax of Go, matched by RE2 itself in linear time: patterns come from strangers.

Matcher = Callable[[str], bool]

_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What Go's parser calls otherwise than RE2 in C++."""
_SET_OPERATORS = ("&&", "--", "~~")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class BadPattern(ValueError):
    """A pattern that RE2 would not compile."""


class Pattern(Protocol):
    """A compiled pattern, as far as it is used here."""

    def search(self, text: str, /) -> Any: ...

    def finditer(self, text: str, /) -> Iterator[Any]: ...


def is_plain(pattern: str) -> bool:
    """Whether the pattern means the same to the JSON Schema engine, which reads classes like `[a&&b]` as sets."""
    try:
        jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except ValueError:
        return False
    return not any(operator in pattern for operator in _SET_OPERATORS)


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Pattern:
    """The pattern, compiled; raises `BadPattern`."""
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        problem, _, part = error.args[0].decode(errors="replace").partition(": ")
        shown = f": `{part}`" if part else ""
        raise BadPattern(f"error parsing regexp: {_GO_WORDS.get(problem, problem)}{shown}") from None
    return compiled


@lru_cache(maxsize=4096)
def matcher(pattern: str) -> Matcher:
    """A function that tells whether a text contains a match; raises `BadPattern`."""
    compiled = compile_pattern(pattern)
    return lambda text: compiled.search(text) is not None
