"""What a page shows, and the templates that make it text.

Everything that is put into a template is escaped: names come from anybody.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from kube_apimachinery.quantity import format_bytes
from spinney.core.placement.explain.reasons import many
from spinney.core.view.gang_list import age
from spinney.serve.dashboard.boxes import path_text
from spinney.serve.dashboard.rows import gang_address


@dataclass(frozen=True, slots=True)
class PageContent:
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


STATIC = Path(str(files("spinney.serve.dashboard") / "static"))


@cache
def environment() -> Environment:
    found = Environment(
        loader=PackageLoader("spinney.serve.dashboard"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"amount": amount, "many": many, "age": lambda since: age(since, time.time())}
    found.globals |= {"static": static, "gang_address": gang_address, "path_text": path_text}
    return found


def render(template: str, values: dict[str, Any]) -> str:
    return environment().get_template(template).render(values)


def warm() -> None:
    """Read all templates, so that nobody has to wait for it."""
    for name in environment().list_templates(["html"]):
        environment().get_template(name)


@cache
def static(name: str) -> str:
    """The address of a file of ours; another one when its content is another."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{digest}"


def amount(number: object, resource: str) -> str:
    """`16Gi memory`, `3 nvidia.com/gpu`: in the words of the events."""
    if resource in ("memory", "ephemeral-storage") and isinstance(number, int):
        return f"{format_bytes(number)} {resource}"
    return f"{number} {resource}"
