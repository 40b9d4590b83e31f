"""Kubernetes quantities as whole base units: cpu in milli, everything else in ones."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_FORM = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?$")
_SCALE = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}


def exact_amount(quantity: str | int | float) -> Fraction:
    """The number a quantity stands for."""
    found = _FORM.match(str(quantity).strip())
    if not found:
        raise ValueError(f"not a quantity: {quantity!r}")
    number, exponent, suffix = found.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent[1:]) if exponent else _SCALE.get(suffix, Fraction(1)))


def base_units(resource: str, quantity: str | int | float, *, up: bool) -> int:
    """Requests and `used` round up, what a node offers rounds down."""
    amount = exact_amount(quantity) * (1000 if resource == "cpu" else 1)
    return math.ceil(amount) if up else math.floor(amount)
