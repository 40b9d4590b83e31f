"""What an expression reads: the parts of its variables, and where among them are times and sets.

Values are followed from the variables through selections, elements, comprehensions and optionals. In doubt a part
counts as used: leaving out too much would change results, handing over too much only costs time. That a field is not
declared is found here; whatever else does not fit is left to the CEL engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kube_embedded.schema.cel.ast import Node
from kube_embedded.schema.cel.types import DYN, RESERVED, STRING, Type, Use, list_of, map_of, optional_of

_NOT_READ = frozenset({"size", "hasValue"})  # they look at the value, not at what is in it
_SAME = frozenset({"slice", "distinct", "sort", "reverse", "dyn", "_+_"})
_ELEMENT = frozenset({"min", "max"})
_MAYBE_ELEMENT = frozenset({"first", "last"})
_UNWRAPPED = frozenset({"value", "orValue"})
_OPTIONAL = frozenset({"of", "ofNonZeroValue"})


class UndeclaredField(ValueError):
    """An expression names a field that the schema does not have."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value that an expression may come to: a part of a variable, of this declared type."""

    kind: Type
    use: Use

    def unwrapped(self) -> Part:
        return Part(self.kind.element or DYN, self.use) if self.kind.name == "optional_type" else self

    def consumed(self) -> Part:
        """The value after it was used as a whole; what is read of it from now on adds nothing."""
        self.use.whole = True
        return Part(self.kind, Use(whole=True))

    def element(self) -> Part:
        if self.kind.name in ("list", "map"):
            return Part(self.kind.element or DYN, self.use.element())
        return replace(self.consumed(), kind=DYN)

    def at(self, name: str) -> Part:
        """A field, by the name that the expression has for it."""
        if self.kind.name == "map":
            return self.element()
        if self.kind.name != "object":
            return Part(DYN, self.use.at(name))
        spelled = f"__{name}__" if name in RESERVED else name
        if spelled not in self.kind.fields:
            raise UndeclaredField(f"undefined field '{name}'")
        return Part(self.kind.fields[spelled], self.use.at(spelled))


Parts = list[Part]
Scope = Mapping[str, Sequence[Part]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of each variable; nodes whose text is to be read as a time, and nodes that are sets."""

    uses: Mapping[str, Use]
    times: dict[int, str] = field(default_factory=dict)  # node id to `timestamp` or `duration`
    sets: set[int] = field(default_factory=set)


def read(root: Node, variables: Mapping[str, Type]) -> Reading:
    """Follow the variables through an expression; raises `UndeclaredField`."""
    found = Reading({name: Use() for name in variables})
    scope = {name: [Part(kind, found.uses[name])] for name, kind in variables.items()}
    _consumed(_read(found, root, scope))
    return found


def _consumed(parts: Parts) -> Parts:
    return [part.consumed() for part in parts]


def _read(found: Reading, node: Node, scope: Scope) -> Parts:
    parts = _READERS.get(node.kind, _literal)(found, node, scope)
    # Noted for every node, also inside of lists: whether it is compared with something is for the rewriting.
    if any(part.kind.unordered for part in parts):
        found.sets.add(node.id)
    for index, part in enumerate(parts):
        if part.kind.adapted and part.kind.name in ("timestamp", "duration"):
            found.times[node.id] = part.kind.name
            parts[index] = replace(part, kind=Type(part.kind.name))  # read as a time from here on
    return parts


def _ident(found: Reading, node: Node, scope: Scope) -> Parts:
    return list(scope.get(node.names[0], ()))


def _select(found: Reading, node: Node, scope: Scope) -> Parts:
    assert node.target is not None
    return [_wrapped_like(part, lambda inner: inner.at(node.names[0])) for part in _read(found, node.target, scope)]


def _has(found: Reading, node: Node, scope: Scope) -> Parts:
    _select(found, node, scope)
    return []


def _wrapped_like(part: Part, step: Callable[[Part], Part]) -> Part:
    """A step into an optional gives an optional."""
    inner = step(part.unwrapped())
    return _optional(inner) if part.kind.name == "optional_type" else inner


def _optional(part: Part) -> Part:
    return replace(part, kind=optional_of(part.kind))


def _literal(found: Reading, node: Node, scope: Scope) -> Parts:
    """Constants, lists, maps and structs: what stands in them is handed over whole."""
    parts = [_consumed(_read(found, arg, scope)) for arg in node.args]
    if node.kind == "list":
        return [replace(one, kind=list_of(one.kind)) for element in parts for one in element]
    if node.kind == "map":
        return [replace(one, kind=map_of(STRING, one.kind)) for value in parts[1::2] for one in value]
    return []


def _call(found: Reading, node: Node, scope: Scope) -> Parts:
    name = node.names[0]
    match name:
        case "_?._":
            owners = _read(found, node.args[0], scope)
            return [_optional(part.unwrapped().at(str(node.args[1].value))) for part in owners]
        case "_[_]" | "_[?_]":
            _consumed(_read(found, node.args[1], scope))
            inner = [_wrapped_like(part, Part.element) for part in _read(found, node.args[0], scope)]
            return inner if name == "_[_]" else [_optional(part.unwrapped()) for part in inner]
        case "_?_:_":
            _consumed(_read(found, node.args[0], scope))
            return _read(found, node.args[1], scope) + _read(found, node.args[2], scope)
    receiver = () if node.target is None else (node.target,)
    parts = [part for one in (*receiver, *node.args) for part in _read(found, one, scope)]
    if name in _NOT_READ:
        return []
    if name == "or":
        return parts
    if name in _UNWRAPPED:
        return [part.unwrapped() for part in parts]
    return _transformed(name, _consumed(parts))


def _transformed(name: str, parts: Parts) -> Parts:
    """What functions give that hand on what they were given."""
    if name in _SAME:
        return parts
    if name in _OPTIONAL:
        return [_optional(part) for part in parts]
    if name in _ELEMENT:
        return [part.element() for part in parts]
    return [_optional(part.element()) for part in parts] if name in _MAYBE_ELEMENT else []


def _comprehension(found: Reading, node: Node, scope: Scope) -> Parts:
    ranged, start, condition, step, result = node.args
    first, second, accumulator = node.names
    owners = [part.unwrapped() for part in _read(found, ranged, scope)]
    elements = [part.element() for part in owners]
    listed = [element for owner, element in zip(owners, elements, strict=True) if owner.kind.name == "list"]
    inner: dict[str, Sequence[Part]] = {**scope, first: [] if second else listed}
    if second:
        inner[second] = elements
    inner[accumulator] = _read(found, start, scope)
    _consumed(_read(found, condition, inner))
    # The step sees what the start gave; what earlier steps gave is of the same parts.
    inner[accumulator] = [*inner[accumulator], *_read(found, step, inner)]
    return _read(found, result, {**scope, accumulator: inner[accumulator]})


_READERS: dict[str, Callable[[Reading, Node, Scope], Parts]] = {
    "ident": _ident,
    "select": _select,
    "has": _has,
    "comprehension": _comprehension,
    "call": _call,
}
