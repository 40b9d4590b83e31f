"""Resource quantities (`1500m`, `1Gi`, `2e3`) as exact integers, read and written the way Kubernetes does.

No float ever takes part: a quantity is decimal digits and a power of ten from the first digit on. A server accepts a
quantity of a million digits; reading one takes time linear in its length, and the amounts that are read are bounded:
what is beyond `LARGEST` is `LARGEST`. Nothing but `QuantityError` is ever raised.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import lru_cache
from typing import NamedTuple

# Whole numbers in texts that anybody may have written: labels and annotations. Never takes longer for a longer text,
# and never raises: Python's `int` refuses texts of thousands of digits.

_MOST_DIGITS = 9


def read_number(text: str) -> int | None:
    """The number that up to nine ASCII digits stand for; None: the text is no such number."""
    return int(text) if len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal() else None


LARGEST = 2**63 - 1
"""Amounts end here, as they do in Kubernetes: a quantity beyond it is as large as can be told."""

_MILLI_PLACES = 3
_NANO_PLACES = 9
_MOST_PLACES = 40  # more digits than the largest amount has in nano-units
_MAX_EXPONENT = 2**31 - 1  # what Kubernetes has room for
_MEMORABLE = 64  # longer texts are rare or hostile: they are read each time, not remembered
_SHOWN = 64

_SHAPE = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[+-]?+[0-9]*+)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?)([0-9]++)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


class QuantityError(ValueError):
    """The text is not a quantity."""


class _Parsed(NamedTuple):
    """`digits` times ten to the `exponent`. The digits neither begin nor end with 0; those of zero are empty."""

    negative: bool
    digits: str
    exponent: int
    style: str  # decimal | binary | exponent: how it was written, and therefore how it is shown

    @property
    def places(self) -> int:
        """How many digits the amount has before the point; more places, a larger amount."""
        return len(self.digits) + self.exponent


def milli(text: str | int | float, round_up: bool = True) -> int:
    """Thousandths, rounded away from zero as Kubernetes rounds them unless told: `milli("1500m") == 1500`."""
    return _scaled(_parse(text), _MILLI_PLACES, round_up)


def base_units(text: str | int | float, round_up: bool) -> int:
    """Whole units. Demand is rounded up (away from zero), capacity down (towards zero)."""
    return _scaled(_parse(text), 0, round_up)


def canonical(text: str | int | float) -> str:
    """The one spelling that Kubernetes stores: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`."""
    found = _parse(text)
    sign = "-" if found.negative else ""
    whole = _scaled(found, 0, round_up=False) if found.style == "binary" and found.exponent >= 0 else 0
    if abs(whole) >= 1024:
        return _show_binary(whole)
    return sign + _show_decimal(found.digits, found.exponent, exponents=found.style == "exponent")


def is_valid(text: str | int | float) -> bool:
    """Whether Kubernetes would take it as a quantity."""
    try:
        _parse(text)
    except QuantityError:
        return False
    return True


def compare(left: str | int | float, right: str | int | float) -> int:
    """Negative, zero or positive as left is less than, equal to or more than right; exact."""
    a, b = _parse(left), _parse(right)
    if a.negative != b.negative:
        return -1 if a.negative else 1
    size, other = _order(a), _order(b)
    found = (size > other) - (size < other)
    return -found if a.negative else found


def format_milli(amount_m: int) -> str:
    """Thousandths as a decimal quantity: `format_milli(1500) == "1500m"`, `format_milli(2000) == "2"`."""
    return ("-" if amount_m < 0 else "") + _show_decimal(*_trimmed(str(abs(amount_m)), -3), exponents=False)


def format_bytes(amount: int) -> str:
    """Whole units with a binary suffix where one divides evenly: `format_bytes(2**30) == "1Gi"`."""
    return _show_binary(amount) if abs(amount) >= 1024 else str(amount)


def _parse(value: str | int | float) -> _Parsed:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"quantities are strings or numbers, found {value!r}")
    text = value if isinstance(value, str) else _number_text(value)
    return _parse_known(text) if len(text) <= _MEMORABLE else _parse_text(text)


def _number_text(value: int | float) -> str:
    """A whole number that is too long to be written is as far beyond every bound as any other."""
    if isinstance(value, int) and value.bit_length() > 512:
        return "-1e150" if value < 0 else "1e150"
    return repr(value)


def _parse_text(text: str) -> _Parsed:
    match = _SHAPE.fullmatch(text.strip())
    if match is None or not (match[2] or match[3]):
        shape = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise QuantityError(f"quantities must match the regular expression '{shape}', found {_shown(text)}")
    sign, whole, fraction, suffix = match[1], match[2] or "", match[3] or "", match[4]
    if suffix in _BINARY:
        digits, exponent, style = _binary(whole + fraction, -len(fraction), _BINARY[suffix])
    else:
        shift, style = _decimal_exponent(suffix, text)
        digits, exponent = _nanos_up(*_trimmed(whole + fraction, shift - len(fraction)))
    return _Parsed(sign == "-" and bool(digits), digits, exponent, style)


_parse_known = lru_cache(maxsize=8192)(_parse_text)


def _binary(written: str, exponent: int, power: int) -> tuple[str, int, str]:
    product = _EXACT.multiply(Decimal(written), Decimal(2**power))
    digits, exponent = _nanos_up(*_trimmed(f"{product:f}", exponent))
    if _order(_Parsed(False, digits, exponent, "")) > _order(_Parsed(False, str(LARGEST), 0, "")):
        digits, exponent = str(LARGEST), 0
    is_less_than_one = bool(digits) and len(digits) + exponent <= 0
    return digits, exponent, "decimal" if is_less_than_one else "binary"


def _decimal_exponent(suffix: str, text: str) -> tuple[int, str]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], "decimal"
    match = _EXPONENT.fullmatch(suffix)
    size = match[2].lstrip("0") or "0" if match is not None else ""
    if match is None or len(size) > 10 or int(size) > _MAX_EXPONENT:
        raise QuantityError(f"unable to parse quantity's suffix, found {_shown(text)}")
    return int(match[1] + size), "exponent"


def _trimmed(written: str, exponent: int) -> tuple[str, int]:
    """Without zeros at either end."""
    digits = written.lstrip("0").rstrip("0")
    return (digits, exponent + len(written) - len(written.rstrip("0"))) if digits else ("", 0)


def _nanos_up(digits: str, exponent: int) -> tuple[str, int]:
    """What is finer than a nano-unit counts as one: who asks for some gets some."""
    finer = -_NANO_PLACES - exponent
    if not digits or finer <= 0:
        return digits, exponent
    return _trimmed(_one_more(digits[:-finer]), -_NANO_PLACES)


def _one_more(digits: str) -> str:
    """The next whole number; the digits may be too many for an int, so that they stay digits."""
    kept = digits.rstrip("9")
    nines = len(digits) - len(kept)
    return f"{kept[:-1]}{int(kept[-1:] or 0) + 1}{'0' * nines}"


def _scaled(found: _Parsed, places: int, round_up: bool) -> int:
    """The amount in units of ten to the minus `places`, at most `LARGEST`."""
    if found.places + places > _MOST_PLACES:
        size = LARGEST
    else:
        size = min(_whole(found.digits, found.exponent + places, round_up), LARGEST)
    return -size if found.negative else size


def _whole(digits: str, exponent: int, round_up: bool) -> int:
    if not digits:
        return 0
    if exponent >= 0:
        return int(digits + "0" * exponent)
    return int(digits[:exponent] or 0) + round_up  # what is cut off ends in another digit than 0


def _order(found: _Parsed) -> tuple[int, int, str]:
    """Compares as the amounts do, for those that are not negative."""
    return (1 if found.digits else 0, found.places, found.digits)


def _show_binary(amount: int) -> str:
    power = 0
    while amount and amount % 1024 == 0 and power < 60:
        amount //= 1024
        power += 10
    return f"{amount}{_BINARY_SUFFIX.get(power, '')}"


def _show_decimal(digits: str, exponent: int, exponents: bool) -> str:
    """With a power of ten that is a multiple of three, the largest that leaves a whole number."""
    if not digits:
        return "0"
    power = exponent - exponent % 3 if exponents else min(exponent - exponent % 3, max(_DECIMAL.values()))
    amount = digits + "0" * (exponent - power)
    if exponents:
        return f"{amount}e{power}" if power else amount
    return amount + _DECIMAL_SUFFIX[power]


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
