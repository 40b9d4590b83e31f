"""What a page shows, before it is text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Shown:
    """A template and its values, made when they are needed.

    `head`: the template of what stands above the part that changes. `address`: where the same is found again.
    `frame`: as long as it is equal only `cells` of the drawing are told, by their names; None: the page has none.
    """

    title: str
    template: str
    build: Callable[[], dict[str, Any]]
    status: int = 200
    head: str = ""
    address: str = ""
    frame: str | None = None
    cells: Mapping[str, Any] = field(default_factory=dict)
