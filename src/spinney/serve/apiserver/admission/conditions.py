"""matchConditions: CEL expressions that must all be true for a webhook to be called.

A condition that is false beats one that fails; what fails follows the webhook's failurePolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol


class Program(Protocol):
    """A compiled expression."""

    def evaluate(self, bindings: Mapping[str, Any]) -> Any: ...


Compile = Callable[[str, Sequence[str]], Program]
"""An expression and the names it may use, to a program; raises ValueError where it cannot be compiled."""

NAMES = ("object", "oldObject", "request")


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    expression: str
    program: Program | None  # None: it could not be compiled
    error: str = ""


class Match(Enum):
    YES = "yes"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Failed:
    """Some conditions could not be evaluated, none was false."""

    message: str


def compile_conditions(conditions: Sequence[Mapping[str, str]], compile_cel: Compile) -> tuple[Condition, ...]:
    """A stored condition that does not compile fails when asked, it does not break its neighbours."""
    return tuple(_compile(one["name"], one["expression"], compile_cel) for one in conditions)


def match(conditions: Sequence[Condition], bindings: Mapping[str, Any]) -> Match | Failed:
    failures = []
    for condition in conditions:
        outcome = _evaluate(condition, bindings)
        if outcome is False:
            return Match.NO
        if isinstance(outcome, str):
            failures.append(outcome)
    if not failures:
        return Match.YES
    return Failed(failures[0] if len(failures) == 1 else f"[{', '.join(dict.fromkeys(failures))}]")


def _compile(name: str, expression: str, compile_cel: Compile) -> Condition:
    try:
        return Condition(name, expression, compile_cel(expression, NAMES))
    except Exception as error:
        return Condition(name, expression, None, f"compile error: {error}")


def _evaluate(condition: Condition, bindings: Mapping[str, Any]) -> bool | str:
    """True or false, or what went wrong. Any exception of the expression language is a failed condition."""
    if condition.program is None:
        return condition.error
    try:
        outcome = condition.program.evaluate(bindings)
    except Exception as error:
        return f"expression '{condition.expression}' resulted in error: {error}"
    return outcome if isinstance(outcome, bool) else f"cel expression evaluates to {outcome!r}, expected a bool"
