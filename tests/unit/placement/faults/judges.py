"""The judges of a wrong engine: each is some piece of the everyday tests, and says what it has to complain of.

A crash is no complaint: an engine that fails at everything would prove nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from placement_oracle.instances import Profile, instance
from placement_oracle.judging import judge
from unit.placement.engine_kit import decided
from unit.placement.metamorphic_kit import broken_promises


class Judge(Protocol):
    def complaints(self) -> list[str]:
        """Sentences; empty when all is well."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A test that states one rule; it complains by failing in its own words."""

    test: Callable[..., None]
    row: tuple[Any, ...] = ()

    def complaints(self) -> list[str]:
        try:
            self.test(*self.row)
        except AssertionError as error:
            if "/spinney/" in traceback.extract_tb(error.__traceback__)[-1].filename:
                raise
            return [f"{self}: {str(error) or 'fails'}"]
        return []

    def __str__(self) -> str:
        return f"{self.test.__name__}{list(self.row) if self.row else ''}"


@dataclass(frozen=True, slots=True)
class Judged:
    """Random problems before the checker and the exact solver; those of the everyday test against the oracle."""

    figure: str
    profile: Profile
    seeds: tuple[int, ...]

    def complaints(self) -> list[str]:
        return [
            f"{self.profile} {seed}: {sentence}"
            for seed in self.seeds
            for problem in [instance(seed, self.profile)]
            for sentence in judge(problem, decided(problem)).wrong
            if sentence.startswith(f"{self.figure}:")
        ]

    def __str__(self) -> str:
        return f"{self.figure} ({self.profile} {', '.join(map(str, self.seeds))})"


@dataclass(frozen=True, slots=True)
class Promise:
    """A change of a problem that must not matter, or never for the worse."""

    check: str
    seeds: tuple[int, ...]

    def complaints(self) -> list[str]:
        return [f"{self.check} {sentence}" for seed in self.seeds for sentence in broken_promises(self.check, seed)]

    def __str__(self) -> str:
        return f"{self.check} ({', '.join(map(str, self.seeds))})"


def rule(test: Callable[..., None], *row: Any) -> Rule:
    return Rule(test, row)


def judged(figure: str, profile: Profile, *seeds: int) -> Judged:
    """Caught when one of the seeds shows the figure."""
    return Judged(figure, profile, seeds)


def promise(check: str, *seeds: int) -> Promise:
    return Promise(check, seeds)
