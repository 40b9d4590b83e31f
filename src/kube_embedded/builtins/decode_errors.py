"""Say which values of an object do not fit its Go type, and which fields nobody knows: the slow twin of `decode`.

It is asked only after the fast walk stumbled, and shapes the object the same way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kube_embedded.builtins.decode import Findings, Node
from kube_embedded.builtins.scalars import INT_OR_STRING, TypeMismatch


@dataclass(slots=True)
class _Place:
    """Where the walk is: the path with indexes for unknown fields, and the one that Go prints."""

    path: str = ""
    go_path: str = ""
    struct: str = ""
    go: str = ""


@dataclass(slots=True)
class _Log:
    errors: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def describe(obj: Any, node: Node) -> tuple[Any, Findings]:
    """The shaped object and everything that was found on the way."""
    log = _Log()
    shaped = _visit(obj, node, _Place(struct=node.struct), log)
    return shaped, Findings(tuple(log.errors), tuple(log.unknown))


def _visit(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if value is None:
        return node.zero()
    match node.shape:
        case "struct":
            return _visit_struct(value, node, place, log)
        case "list":
            return _visit_list(value, node, place, log)
        case "map":
            return _visit_map(value, node, place, log)
        case _:
            return _visit_leaf(value, node, place, log)


def _visit_struct(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if not isinstance(value, dict):
        return _mismatch(value, place, log)
    shaped: dict[str, Any] = {}
    for name, one in value.items():
        known = node.fields.get(name)
        path = f"{place.path}.{name}" if place.path else name
        if known is None:
            log.unknown.append(path)
        elif one is not None:
            step = f"{known.embedded}.{name}" if known.embedded else name
            go_path = f"{place.go_path}.{step}" if place.go_path else step
            inner = _visit(one, known.node, _Place(path, go_path, node.struct, known.go), log)
            if inner or not known.drop_empty:
                shaped[name] = inner
    return {**node.walk({}), **shaped}


def _visit_list(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if not isinstance(value, list) or node.item is None:
        return _mismatch(value, place, log)
    go = place.go.removeprefix("[]")
    return [
        _visit(one, node.item, _Place(f"{place.path}[{index}]", place.go_path, place.struct, go), log)
        for index, one in enumerate(value)
    ]


def _visit_map(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if not isinstance(value, dict) or node.item is None:
        return _mismatch(value, place, log)
    go = re.sub(r"^map\[[\w.]+\]", "", place.go)
    return {
        name: _visit(one, node.item, _Place(f"{place.path}.{name}", place.go_path, place.struct, go), log)
        for name, one in value.items()
    }


def _visit_leaf(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    try:
        return node.leaf.walk(value)
    except TypeMismatch as misfit:
        if misfit.args:
            log.errors.append(str(misfit))
            return None
        go = node.leaf.go if node.leaf.own_go else place.go
        with_digits = isinstance(value, (int, float)) and (node.leaf is INT_OR_STRING or node.leaf.go.startswith("int"))
        return _mismatch(value, _Place(place.path, place.go_path, place.struct, go), log, with_digits)


def _mismatch(value: Any, place: _Place, log: _Log, with_digits: bool = False) -> None:
    words = _json_type(value)
    if with_digits and words == "number":
        words = f"number {value}"
    if place.go_path:
        target = f"Go struct field {place.struct}.{place.go_path} of type {place.go}"
    else:
        target = f"Go value of type v1.{place.struct}"
    log.errors.append(f"json: cannot unmarshal {words} into {target}")


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
