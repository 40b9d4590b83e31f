"""What a rule finds: errors that refuse, and warnings that do not.

What is told is bounded, however much is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kube_apimachinery.field_errors import OMITTED, FieldError, invalid

MAX_ERRORS = 200
_SHOWN_NAMES = 16


@dataclass(slots=True)
class Findings:
    """Collected while one object is looked at; in the order of the rules."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, *errors: FieldError) -> None:
        self.refuse_all(errors)

    def refuse_all(self, errors: Iterable[FieldError]) -> None:
        """As many as can be told; what is wrong beyond that is not even looked for."""
        for error in errors:
            if self.is_full:
                return
            self.errors.append(error)

    @property
    def is_full(self) -> bool:
        """Whether there is more than can be told."""
        return len(self.errors) > MAX_ERRORS

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def told(self) -> tuple[FieldError, ...]:
        """Each error once; where there are too many, that there are more."""
        unique = tuple({str(error): error for error in self.errors[:MAX_ERRORS]}.values())
        return (*unique, _MORE) if self.is_full else unique


_MORE = invalid("<object>", OMITTED, "too many errors: correct these to see the others")


def choice(names: Collection[str]) -> str:
    """The names to choose from, in order; the first ones where they are many."""
    shown = sorted(names)
    return " ".join([*shown[:_SHOWN_NAMES], "..."] if len(shown) > _SHOWN_NAMES else shown)
