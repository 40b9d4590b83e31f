"""What a rule finds: errors that refuse, and warnings that do not."""

from __future__ import annotations

from dataclasses import dataclass, field

from spinney.api.field_errors import FieldError


@dataclass(slots=True)
class Findings:
    """Collected while one object is looked at; in the order of the rules."""

    errors: list[FieldError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, *errors: FieldError) -> None:
        self.errors.extend(errors)

    def warn(self, text: str) -> None:
        self.warnings.append(text)
