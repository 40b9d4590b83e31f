"""Resource amounts of pods and nodes in base units: cpu in thousandths, everything else in whole units.

The only place where quantities of a cluster become numbers. They are bounded, so that sums stay within 64 bits, and
they err on the safe side: a request that cannot be parsed is more than any node offers.
"""

from __future__ import annotations

from kube_apimachinery import quantity

Quantity = str | int | float

MOST_ASKED = 2**53
"""The upper bound of a request, more than any node offers: nine petabytes, nine trillion cores."""

MOST_OFFERED = MOST_ASKED - 1


def asked(resource: str, written: Quantity) -> int:
    """Rounded up. A quantity that cannot be parsed counts as `MOST_ASKED`, a negative one as zero."""
    try:
        found = quantity.milli(written) if resource == "cpu" else quantity.base_units(written, round_up=True)
    except quantity.QuantityError:
        return MOST_ASKED
    return max(0, min(found, MOST_ASKED))


def offered(resource: str, written: Quantity) -> int:
    """Rounded down. A quantity that cannot be parsed, or is negative, counts as zero."""
    try:
        found = quantity.milli(written, False) if resource == "cpu" else quantity.base_units(written, False)
    except quantity.QuantityError:
        return 0
    return max(0, min(found, MOST_OFFERED))
