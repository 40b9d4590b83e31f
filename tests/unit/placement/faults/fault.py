"""A planted fault: one function of the engine changed, and the judges that must notice it.

Never changes a function for good: what is swapped is put back when the patch ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from unit.placement.faults.judges import Judge

CORE = "spinney.core"


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a fault is planted: swaps functions of the engine while the patch lasts."""

    patch: pytest.MonkeyPatch
    fault: str

    def swap(self, module: str, name: str, make: Callable[[Any], Any]) -> None:
        """Put in the place of `name` of a module of the core (dots lead into classes) what `make` makes of it.

        A function is replaced wherever the core has imported it.
        """
        owner, last = self._find(module, name)
        original = vars(owner)[last]
        wrong = make(original)
        self.patch.setattr(owner, last, wrong)
        for other in _modules():
            if vars(other).get(last) is original:
                self.patch.setattr(other, last, wrong)

    def answer(self, module: str, name: str, value: Any) -> None:
        """Let every call return the same, whatever is asked."""
        self.swap(module, name, lambda _: lambda *_, **__: value)

    def _find(self, module: str, name: str) -> tuple[Any, str]:
        """The owner of a name: the module or class it was in, else the only one that has it now."""
        *path, last = name.split(".")
        owners = _owners(import_module(f"{CORE}.{module}"), path, last) if find_spec(f"{CORE}.{module}") else []
        if not owners:
            defined = [each for each in _modules() for each in _owners(each, path, last)]
            owners = list({id(vars(each)[last]): each for each in defined}.values())
        if len(owners) != 1:
            pytest.fail(
                f"the fault {self.fault} cannot be planted: {CORE}.{module} has no {name} any more; "
                f"plant it in what took its place"
            )
        return owners[0], last


def _modules() -> list[ModuleType]:
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(CORE)]


def _owners(owner: Any, path: list[str], last: str) -> list[Any]:
    """The owner that the path leads to, if it has the name."""
    for step in path:
        owner = vars(owner).get(step)
        if owner is None:
            return []
    return [owner] if last in vars(owner) else []


Plant = Callable[[Ground], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """`plant` makes the engine wrong in one way; every one of `judges` complains of it then."""

    name: str
    plant: Plant
    judges: tuple[Judge, ...]


def caught_by(*judges: Judge) -> Callable[[Plant], Fault]:
    """Makes a fault of the function that plants it."""
    return lambda plant: Fault(plant.__name__, plant, judges)
