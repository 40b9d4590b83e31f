"""Resource quantities (`1500m`, `1Gi`, `2e3`) as exact integers, read and written the way Kubernetes does.

No float ever takes part: a quantity is a whole number of nano-units from the first digit on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

NANO = 10**9
_MILLI_NANOS = 10**6
_MAX_BINARY = 2**63 - 1
_MAX_EXPONENT = 400  # far above anything meaningful; keeps a hostile exponent from filling memory

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}


class QuantityError(ValueError):
    """The text is not a quantity."""


class _Parsed(NamedTuple):
    nanos: int
    style: str  # decimal | binary | exponent: how it was written, and therefore how it is shown


def milli(text: str | int | float, round_up: bool = True) -> int:
    """Thousandths, rounded away from zero as Kubernetes rounds them unless told: `milli("1500m") == 1500`."""
    return _scaled(_parse(_text(text)).nanos, _MILLI_NANOS, round_up=round_up)


def base_units(text: str | int | float, round_up: bool) -> int:
    """Whole units. Demand is rounded up (away from zero), capacity down (towards zero)."""
    return _scaled(_parse(_text(text)).nanos, NANO, round_up=round_up)


def canonical(text: str | int | float) -> str:
    """The one spelling that Kubernetes stores: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`."""
    return _canonical(_text(text))


def is_valid(text: str | int | float) -> bool:
    """Whether Kubernetes would take it as a quantity."""
    try:
        _parse(_text(text))
    except QuantityError:
        return False
    return True


def compare(left: str | int | float, right: str | int | float) -> int:
    """Negative, zero or positive as left is less than, equal to or more than right; exact."""
    a, b = _parse(_text(left)).nanos, _parse(_text(right)).nanos
    return (a > b) - (a < b)


def format_milli(amount_m: int) -> str:
    """Thousandths as a decimal quantity: `format_milli(1500) == "1500m"`, `format_milli(2000) == "2"`."""
    return _show_decimal(amount_m * _MILLI_NANOS, exponents=False)


def format_bytes(amount: int) -> str:
    """Whole units with a binary suffix where one divides evenly: `format_bytes(2**30) == "1Gi"`."""
    return _show_binary(amount) if abs(amount) >= 1024 else str(amount)


def _text(value: str | int | float) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"quantities are strings or numbers, found {value!r}")
    return value if isinstance(value, str) else repr(value)


@lru_cache(maxsize=8192)
def _parse(text: str) -> _Parsed:
    match = _SHAPE.fullmatch(text.strip())
    if match is None or not (match[2] or match[3]):
        shape = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise QuantityError(f"quantities must match the regular expression '{shape}', found {text!r}")
    sign, whole, fraction, suffix = match[1], match[2] or "", match[3] or "", match[4]
    digits = int(whole + fraction)
    if suffix in _BINARY:
        return _binary(digits, len(fraction), _BINARY[suffix], sign)
    exponent, style = _decimal_exponent(suffix, text)
    nanos = _shift_up(digits, exponent + 9 - len(fraction))
    return _Parsed(-nanos if sign == "-" else nanos, style)


def _binary(digits: int, places: int, power: int, sign: str) -> _Parsed:
    nanos = min(_divide_up((digits << power) * NANO, 10**places), _MAX_BINARY * NANO)
    style = "decimal" if 0 < nanos < NANO else "binary"
    return _Parsed(-nanos if sign == "-" else nanos, style)


def _decimal_exponent(suffix: str, text: str) -> tuple[int, str]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "decimal"
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(int(match[1])) > _MAX_EXPONENT:
        raise QuantityError(f"unable to parse quantity's suffix, found {text!r}")
    return int(match[1]), "exponent"


def _shift_up(digits: int, places: int) -> int:
    """digits * 10**places; what is finer than a nano-unit counts as one: who asks for some gets some."""
    return digits * 10**places if places >= 0 else _divide_up(digits, 10**-places)


def _divide_up(amount: int, by: int) -> int:
    return -(-amount // by)


def _scaled(nanos: int, unit: int, round_up: bool) -> int:
    size = _divide_up(abs(nanos), unit) if round_up else abs(nanos) // unit
    return -size if nanos < 0 else size


@lru_cache(maxsize=8192)
def _canonical(text: str) -> str:
    nanos, style = _parse(text)
    if style == "binary" and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        return _show_binary(nanos // NANO)
    return _show_decimal(nanos, exponents=style == "exponent")


def _show_binary(amount: int) -> str:
    power = 0
    while amount and amount % 1024 == 0 and power < 60:
        amount //= 1024
        power += 10
    return f"{amount}{_BINARY_SUFFIX.get(power, '')}"


def _show_decimal(nanos: int, exponents: bool) -> str:
    if nanos == 0:
        return "0"
    amount, exponent = nanos, -9
    while amount % 1000 == 0 and (exponents or exponent < 18):
        amount //= 1000
        exponent += 3
    if exponents:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_SUFFIX[exponent]}"
