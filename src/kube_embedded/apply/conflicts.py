"""Conflicts of an apply: fields that somebody else owns with another value, as the answer tells them."""

from __future__ import annotations

from dataclasses import dataclass

from kube_embedded.apply.elements import text
from kube_embedded.apply.fieldset import FieldSet, Path, intersection, paths
from kube_embedded.apply.managed_fields import Managed, Owner
from kube_embedded.base.errors import ApiError


@dataclass(frozen=True, slots=True)
class Conflict:
    owner: Owner
    path: Path

    def field(self) -> str:
        return "".join(text(element) for element in self.path)


def find_conflicts(managed: Managed, gained: FieldSet, applier: Owner) -> list[Conflict]:
    """Fields that an apply would set and another owner holds, by owner."""
    return [
        Conflict(owned.owner, path)
        for key, owned in sorted(managed.items())
        if key != applier.key()
        for path in paths(intersection(owned.fields, gained))
    ]


def refusal(conflicts: list[Conflict]) -> ApiError:
    """409 that names every conflict."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_named(conflict.owner)}",
            "field": conflict.field(),
        }
        for conflict in conflicts
    ]
    return ApiError(409, "Conflict", _message(conflicts), {"causes": causes})


def _message(conflicts: list[Conflict]) -> str:
    if len(conflicts) == 1:
        only = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {_named(only.owner)}: {only.field()}"
    lines: list[str] = []
    owner: Owner | None = None
    for conflict in conflicts:
        if conflict.owner != owner:
            owner = conflict.owner
            lines.append(f"conflicts with {_named(owner)}:")
        lines.append(f"- {conflict.field()}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _named(owner: Owner) -> str:
    name = f'"{owner.manager}"'
    if owner.subresource:
        name += f' with subresource "{owner.subresource}"'
    return name if owner.operation == "Apply" else f"{name} using {owner.api_version}"
