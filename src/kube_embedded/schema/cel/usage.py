"""Which parts of its variables an expression can look at, so that only those are handed to the engine.

In doubt a part counts as used: leaving out too much would change results, handing over too much only costs time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kube_embedded.schema.cel.ast import Node, Tree
from kube_embedded.schema.cel.types import RESERVED, Type, adapt


@dataclass(slots=True)
class Use:
    """A part of a value: looked at as a whole, by some of its fields, or through each of its elements."""

    whole: bool = False
    fields: dict[str, Use] = field(default_factory=dict)
    each: Use | None = None

    def at(self, name: str) -> Use:
        spelled = f"__{name}__" if name in RESERVED else name
        return self.fields.setdefault(spelled, Use())

    def element(self) -> Use:
        if self.each is None:
            self.each = Use()
        return self.each


_UNUSED = Use()
Scope = Mapping[str, list[Use]]


def usage(tree: Tree, names: tuple[str, ...], types: Mapping[int, Type]) -> dict[str, Use]:
    """For each variable, the parts that the expression looks at."""
    found = {name: Use() for name in names}
    scope = {name: [use] for name, use in found.items()}
    _consume(_Reader(types).read(tree.root, scope))
    return found


def _consume(uses: list[Use]) -> None:
    for use in uses:
        use.whole = True


@dataclass(frozen=True, slots=True)
class _Reader:
    """Follows values through an expression; `read` gives the parts that its value may be."""

    types: Mapping[int, Type]

    def read(self, node: Node, scope: Scope) -> list[Use]:
        match node.kind:
            case "ident":
                return scope.get(node.names[0], [])
            case "select" | "has":
                assert node.target is not None
                found = [use.at(node.names[0]) for use in self.read(node.target, scope)]
                return found if node.kind == "select" else []
            case "comprehension":
                return self._comprehension(node, scope)
            case "call":
                return self._call(node, scope)
            case _:
                for arg in node.args:
                    _consume(self.read(arg, scope))
                return []

    def _call(self, node: Node, scope: Scope) -> list[Use]:
        name = node.names[0]
        parts = (*((node.target,) if node.target is not None else ()), *node.args)
        match name:
            case "_?._":
                return [use.at(str(node.args[1].value)) for use in self.read(node.args[0], scope)]
            case "_[_]" | "_[?_]":
                _consume(self.read(node.args[1], scope))
                return self._elements(node.args[0], scope)
            case "_?_:_":
                _consume(self.read(node.args[0], scope))
                return self.read(node.args[1], scope) + self.read(node.args[2], scope)
            case "size" | "hasValue":
                for part in parts:
                    self.read(part, scope)
                return []
            case "value" | "orValue" | "or":
                return [use for part in parts for use in self.read(part, scope)]
        for part in parts:
            _consume(self.read(part, scope))
        return []

    def _elements(self, node: Node, scope: Scope) -> list[Use]:
        """The elements of a list or a map; of what is neither for sure, everything counts as used."""
        uses = self.read(node, scope)
        kind = self.types.get(node.id)
        if kind is None or kind.name not in ("list", "map"):
            _consume(uses)
            return []
        return [use.element() for use in uses]

    def _comprehension(self, node: Node, scope: Scope) -> list[Use]:
        ranged, start, condition, step, result = node.args
        first, second, accumulator = node.names
        elements = self._elements(ranged, scope)
        kind = self.types.get(ranged.id)
        is_list = kind is not None and kind.name == "list"
        inner = {**scope, first: elements if is_list and not second else []}
        if second:
            inner[second] = elements
        inner[accumulator] = self.read(start, scope)
        _consume(self.read(condition, inner))
        inner[accumulator] = inner[accumulator] + self.read(step, inner)
        return self.read(result, {**scope, accumulator: inner[accumulator]})


def project(value: Any, kind: Type, use: Use) -> Any:
    """The used part of a value, as CEL shall see it."""
    if use.whole or value is None:
        return adapt(value, kind)
    match kind.name:
        case "object" if isinstance(value, dict):
            return _project_object(value, kind, use)
        case "map" if isinstance(value, dict) and kind.element is not None:
            element, each = kind.element, use.each or _UNUSED
            return {key: project(child, element, each) for key, child in value.items()}
        case "list" if isinstance(value, list) and kind.element is not None:
            element, each = kind.element, use.each or _UNUSED
            return [project(child, element, each) for child in value]
        case _:
            return adapt(value, kind)


def _project_object(value: dict[str, Any], kind: Type, use: Use) -> dict[str, Any]:
    projected = {}
    for spelled, inner in use.fields.items():
        name = kind.originals.get(spelled, spelled)
        if name in value and spelled in kind.fields:
            projected[spelled] = project(value[name], kind.fields[spelled], inner)
            if name in RESERVED:
                projected[name] = projected[spelled]
    return projected
