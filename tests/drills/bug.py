"""A planted bug: one behaviour of the embedded server changed, and the contract cases that must fail then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Plant = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Bug:
    """`plant` changes the process it is called in; every one of `cases` fails against a server with the bug."""

    name: str
    plant: Plant
    cases: tuple[str, ...]


def caught_by(*cases: str) -> Callable[[Plant], Bug]:
    """Makes a bug of the function that plants it. A case is `file::function` or `file::function[row]`."""
    return lambda plant: Bug(plant.__name__, plant, tuple(_node(case) for case in cases))


def _node(case: str) -> str:
    """The name that pytest has for the case on the embedded server."""
    file, _, rest = case.partition("::")
    function, _, row = rest.removesuffix("]").partition("[")
    return f"{file}.py::{function}[{f'embedded-{row}' if row else 'embedded'}]"


def swap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put in the place of an attribute what `make` makes of it; fails where there is none of that name."""
    setattr(owner, name, make(getattr(owner, name)))


def first(owner: Any, name: str, act: Callable[..., None]) -> None:
    """Run `act` on the arguments before every call."""

    def both(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            act(*arguments)
            return original(*arguments)

        return run

    swap(owner, name, both)


def answer(owner: Any, name: str, value: Any) -> None:
    """Let every call return the same, whatever is asked."""
    swap(owner, name, lambda _: lambda *_, **__: value)
