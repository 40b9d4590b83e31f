"""Policy rules: what one allows, what one covers of another, and how one is shown in a refusal.

Pure; where rules come from is the authorizer's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kube_embedded.access.attributes import Attributes


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of groups, or on paths; an asterisk stands for all."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def reaches(self, asked: Attributes) -> bool:
        """Everything but the object's name fits; the answer is the same for all names."""
        if not _has(self.verbs, asked.verb):
            return False
        if asked.path:
            return any(_path_covers(path, asked.path) for path in self.paths)
        return _has(self.groups, asked.group) and _resource_covered(self.resources, asked.full_resource)

    def names_fit(self, name: str) -> bool:
        return not self.names or name in self.names

    def covers(self, part: Rule) -> bool:
        """Whether whoever holds this rule may hand on that part (a rule with one of everything)."""
        return (
            all(_has(self.verbs, verb) for verb in part.verbs)
            and all(_has(self.groups, group) for group in part.groups)
            and all(_resource_covered(self.resources, resource) for resource in part.resources)
            and all(any(_path_covers(own, path) for own in self.paths) for path in part.paths)
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
        )

    def parts(self) -> Iterator[Rule]:
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or ("",):
                        yield Rule((verb,), (group,), (resource,), (name,) if name else ())
        for path in self.paths:
            for verb in self.verbs:
                yield Rule((verb,), paths=(path,))

    def shown(self) -> str:
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.paths,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{name}:{quoted(values)}" for name, values in fields.items() if values) + "}"


def read_rules(rules: Iterable[Mapping[str, Any]] | None) -> tuple[Rule, ...]:
    """The `rules` of a Role or ClusterRole object."""
    return tuple(
        Rule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in rules or ()
    )


def not_covered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of the wanted rules that none of the owned ones covers."""
    return [part for rule in wanted for part in rule.parts() if not any(own.covers(part) for own in owned)]


def compact(parts: Iterable[Rule]) -> list[Rule]:
    """Parts that differ by their verb only, as one; parts about paths as they are."""
    together: dict[Rule, Rule] = {}
    for part in parts:
        key = part if part.paths else replace(part, verbs=())
        before = together.get(key)
        together[key] = part if before is None else replace(before, verbs=(*before.verbs, *part.verbs))
    return list(together.values())


def quoted(values: Iterable[str]) -> str:
    """A list of strings as Kubernetes prints one: `["a" "b"]`."""
    return "[" + " ".join(msgspec.json.encode(value).decode() for value in values) + "]"


def _has(allowed: Sequence[str], wanted: str) -> bool:
    return wanted in allowed or "*" in allowed


def _resource_covered(allowed: Sequence[str], wanted: str) -> bool:
    """`pods/log` is covered by itself, by `*/log` and by `*`, never by `pods`."""
    if _has(allowed, wanted):
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in allowed


def _path_covers(own: str, wanted: str) -> bool:
    return own == wanted or (own.endswith("*") and wanted.startswith(own.rstrip("*")))
