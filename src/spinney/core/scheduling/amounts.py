"""What pods ask for and nodes offer, in base units: cpu in thousandths, everything else in whole units.

The one place where quantities of a cluster become numbers. They are bounded here, so that whoever adds them up never
leaves 64 bits, and they err on the safe side: what is asked for and cannot be told is more than any node offers.
"""

from __future__ import annotations

from spinney.api.values import quantity

Quantity = str | int | float

MOST_ASKED = 2**53
"""What a pod asks for ends here, which is more than any node offers: nine petabytes, nine trillion cores."""

MOST_OFFERED = MOST_ASKED - 1


def asked(resource: str, written: Quantity) -> int:
    """Rounded up. What can not be read is as much as can be asked for; less than nothing is nothing."""
    try:
        found = quantity.milli(written) if resource == "cpu" else quantity.base_units(written, round_up=True)
    except quantity.QuantityError:
        return MOST_ASKED
    return max(0, min(found, MOST_ASKED))


def offered(resource: str, written: Quantity) -> int:
    """Rounded down. What can not be read, and less than nothing, is nothing."""
    try:
        found = quantity.milli(written, False) if resource == "cpu" else quantity.base_units(written, False)
    except quantity.QuantityError:
        return 0
    return max(0, min(found, MOST_OFFERED))
