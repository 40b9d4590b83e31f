"""The judges of a wrong engine: each is some piece of the everyday tests, and says what it has to complain of.

A crash is no complaint: an engine that fails at everything would prove nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import spinney
from placement_oracle.instances import Profile, instance
from placement_oracle.judging import judge
from unit.placement.engine_kit import decided
from unit.placement.metamorphic_kit import broken_promises

ENGINE = str(Path(spinney.__file__).parent)


class Judge(Protocol):
    @property
    def figure(self) -> str:
        """What at least one complaint of the fault has to say; empty: whatever it says."""
        ...

    def complaints(self) -> list[str]:
        """Sentences; empty when all is well."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A test that states one rule; it complains by failing, in any of its rows, in its own words."""

    test: Callable[..., None]
    figure: str = ""

    def complaints(self) -> list[str]:
        return [f"{self}: {said}" for row in self._rows() if (said := self._says(row))]

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows of a table with one `parametrize`, or the one row without arguments."""
        [table] = getattr(self.test, "pytestmark", [None])
        for row in [()] if table is None else table.args[1]:
            yield row if isinstance(row, tuple) else (row,)

    def _says(self, row: tuple[Any, ...]) -> str:
        try:
            self.test(*row)
        except AssertionError as error:
            if ENGINE in traceback.extract_tb(error.__traceback__)[-1].filename:
                raise
            return str(error) or "fails"
        return ""

    def __str__(self) -> str:
        return self.test.__name__


@dataclass(frozen=True, slots=True)
class Judged:
    """Random problems before the checker and the exact solver; their seeds are those of the everyday tests."""

    figure: str
    profile: Profile
    seeds: tuple[int, ...]

    def complaints(self) -> list[str]:
        return [
            f"{self.profile} {seed}: {sentence}"
            for seed in self.seeds
            for problem in [instance(seed, self.profile)]
            for sentence in judge(problem, decided(problem)).wrong
        ]

    def __str__(self) -> str:
        return f"{self.figure} ({self.profile} {', '.join(map(str, self.seeds))})"


@dataclass(frozen=True, slots=True)
class Promise:
    """A change of a problem that must not matter, or never for the worse."""

    check: str
    seeds: tuple[int, ...]
    figure: str = ""

    def complaints(self) -> list[str]:
        return [f"{self.check} {sentence}" for seed in self.seeds for sentence in broken_promises(self.check, seed)]

    def __str__(self) -> str:
        return f"{self.check} ({', '.join(map(str, self.seeds))})"


def rule(test: Callable[..., None]) -> Rule:
    return Rule(test)


def judged(figure: str, profile: Profile, *seeds: int) -> Judged:
    """Caught when one of the seeds shows the figure."""
    return Judged(figure, profile, seeds)


def promise(check: str, *seeds: int) -> Promise:
    return Promise(check, seeds)
