"""How much may be moved for a gang that fits nowhere: by the scheduler's settings, or as its PodGroup requests.

A request is an annotation, `<most moves>,<largest loss of score>`; text in any other form is no request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spinney.api.labels import CONSOLIDATE
from spinney.api.placement.problem import Consolidate

BY_ITSELF = Consolidate(max_moves=16, max_loss=0.0)
"""The limits of a scheduler that is set to consolidate without a request."""

_REQUEST = re.compile(r"([0-9]{1,6}),(0|1|0?\.[0-9]{1,9}|1\.0+)", re.ASCII)


def request(limits: Consolidate) -> str:
    """The annotation text of a request."""
    loss = f"{limits.max_loss:.6f}".rstrip("0").rstrip(".")
    return f"{limits.max_moves},{loss or '0'}"


def limits_of(annotations: Mapping[str, str], otherwise: Consolidate | None) -> Consolidate | None:
    """The limits that a PodGroup requests, else the default."""
    found = _REQUEST.fullmatch(annotations.get(CONSOLIDATE, ""))
    return Consolidate(int(found[1]), float(found[2])) if found is not None else otherwise
