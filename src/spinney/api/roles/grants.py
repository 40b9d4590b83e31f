"""A right as a value: verbs on resources of one API group, on all objects or on named ones.

No wildcard can be written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_VERBS = frozenset({"get", "list", "watch", "create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Grant:
    """`resources` and `verbs` as RBAC spells them; a subresource is `resource/subresource`.

    A watch that is limited to names has to select `metadata.name`.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = set(self.verbs) - _VERBS
        if unknown or any("*" in word for word in (self.group, *self.resources, *self.names)):
            raise ValueError(
                f"{self}: found {sorted(unknown) or 'a wildcard'}, expected words of RBAC without wildcards"
            )
        if self.names and {"create", "list"} & set(self.verbs):
            raise ValueError(f"{self}: create and list cannot be limited to names")

    def rule(self) -> dict[str, Any]:
        """As a rule of a Role or ClusterRole."""
        shown = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return shown | ({"resourceNames": list(self.names)} if self.names else {})


def grant(group: str, resources: str, verbs: str, *names: str) -> Grant:
    """The same, written shortly: words between blanks."""
    return Grant(group, tuple(resources.split()), tuple(verbs.split()), names)
