"""The JSONPath of printer columns and selectable fields, and the table of a custom resource.

Fields, indices, slices, wildcards and filters; a path that does not fit an object finds nothing and never fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.times import seconds
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.printing import human_duration

Step = Callable[[list[Any]], list[Any]]

_FIELD = re.compile(r"(?:\\.|[^\s.,\[\]$@{}\\])*")
_INDEX = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(\d*))?")
_QUOTED_KEY = re.compile(r"'([^']*)'")
_FILTER = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


class BadPath(ValueError):
    """A path that cannot be read."""


class _TypeMismatch(Exception):
    """The path does not fit this object."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    steps: tuple[Step, ...]

    def find(self, obj: Any) -> list[Any]:
        """All values at the path, in order; none where the path does not fit."""
        values = [obj]
        try:
            for step in self.steps:
                values = step(values)
        except (_TypeMismatch, TypeError):
            return []
        return values


def parse(text: str) -> JsonPath:
    """Read a path like `.status.conditions[?(@.type=="Ready")].status`; raises `BadPath`."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        char = text[at]
        if text.startswith("[?(", at):
            end = _filter_end(text, at)
            steps.append(_filter(text[at + 3 : end]))
            at = end + 2
        elif text.startswith("..", at):
            steps.append(_descend)
            found = _FIELD.match(text, at + 2)
            assert found is not None
            if found.group():
                steps.append(_field(found.group()))
            at = found.end()
        elif char == "[":
            end = text.find("]", at)
            if end < 0:
                raise BadPath("unterminated array")
            steps.append(_bracket(text[at + 1 : end]))
            at = end + 1
        elif char == ".":
            found = _FIELD.match(text, at + 1)
            assert found is not None
            steps.append(_field(found.group()))
            at = found.end()
        elif char in "@$ ":
            at += 1
        else:
            raise BadPath(f"unrecognized character in action: {char!r}")
    return JsonPath(tuple(steps))


def text_of(value: Any) -> str:
    """A found value as a cell of a table shows it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) >= 1e21 else repr(value)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _field(escaped: str) -> Step:
    if escaped == "*":
        return _wildcard
    name = escaped.replace("\\", "")
    if not name:
        return lambda values: values
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _wildcard(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, dict):
            found += value.values()
        elif isinstance(value, list):
            found += value
    return found


def _descend(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        children = _wildcard([value])
        if children:
            found += [value, *_descend(children)]
    return found


def _bracket(text: str) -> Step:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1:
        union = [_bracket(part) for part in parts]
        return lambda values: [found for step in union for found in step(values)]
    if quoted := _QUOTED_KEY.fullmatch(parts[0]):
        inner = parse(f".{quoted[1]}").steps  # a point in the key divides it, unless it is escaped
        return lambda values: _through(inner, values)
    return _slice(":" if parts[0] == "*" else parts[0])


def _through(steps: tuple[Step, ...], values: list[Any]) -> list[Any]:
    for step in steps:
        values = step(values)
    return values


def _slice(text: str) -> Step:
    found = _INDEX.fullmatch(text)
    if found is None or not text:
        raise BadPath(f"invalid array index {text}")
    start = int(found[1]) if found[1] else 0
    if found[2] is None:
        return lambda values: [_item(value, start) for value in values if value is not None]
    stop = int(found[2]) if found[2] else None
    step = int(found[3]) if found[3] else 1
    return lambda values: [item for value in values if value is not None for item in _listed(value)[start:stop:step]]


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _TypeMismatch
    return value


def _item(value: Any, index: int) -> Any:
    items = _listed(value)
    if not -len(items) <= index < len(items):
        raise _TypeMismatch
    return items[index]


def _filter_end(text: str, at: int) -> int:
    quote = ""
    for index in range(at + 3, len(text)):
        char = text[index]
        if quote:
            if char == quote and text[index - 1] != "\\":
                quote = ""
        elif char in "\"'":
            quote = char
        elif char == ")":
            if text[index + 1 : index + 2] != "]":
                raise BadPath("unclosed array expect ]")
            return index
    raise BadPath("unterminated filter")


def _filter(text: str) -> Step:
    parts = _FILTER.fullmatch(text)
    if parts is None:
        path = parse(text)
        return lambda values: [item for value in values for item in _listed(value) if path.find(item)]
    left, right = _operand(parts[1]), _operand(parts[3])
    compare = _COMPARISONS.get(parts[2])
    if compare is None:
        raise BadPath(f"unrecognized filter operator {parts[2]}")
    return lambda values: [
        item for value in values for item in _listed(value) if _passes(left(item), right(item), compare)
    ]


def _operand(text: str) -> Callable[[Any], list[Any]]:
    text = text.strip()
    if text[:1] in "\"'":
        if len(text) < 2 or text[-1] != text[0]:
            raise BadPath("unterminated quoted string")
        literal: Any = text[1:-1].replace("\\" + text[0], text[0])
    elif text in ("true", "false"):
        literal = text == "true"
    elif re.fullmatch(r"[-+]?\d+(\.\d+)?", text):
        literal = float(text) if "." in text else int(text)
    else:
        return parse(text).find
    return lambda item: [literal]


def _passes(left: list[Any], right: list[Any], compare: Callable[[Any, Any], bool]) -> bool:
    if not left or not right:
        return False
    if len(left) > 1 or len(right) > 1:
        raise _TypeMismatch
    return compare(left[0], right[0])


_NAME = Column(
    "Name",
    "string",
    "name",
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
_AGE: dict[str, Any] = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "CreationTimestamp is a timestamp representing the server time when this object was created. It is "
    "not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It "
    "is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
}


class Table:
    """Columns and rows. A column whose path cannot be read ends the table, as it does in Kubernetes."""

    def __init__(self, definitions: Sequence[dict[str, Any]]) -> None:
        columns, paths = [_NAME], []
        for definition in definitions or [_AGE]:
            try:
                paths.append(parse(definition["jsonPath"]))
            except BadPath:
                break
            columns.append(_column(definition))
        self.columns: tuple[Column, ...] = tuple(columns)
        self._paths: tuple[JsonPath, ...] = tuple(paths)

    def row(self, obj: Object, context: Context) -> list[Any]:
        cells: list[Any] = [obj["metadata"]["name"]]
        for column, path in zip(self.columns[1:], self._paths, strict=True):
            found = path.find(obj)
            cells.append(_cell(column.type, found[0], context) if found else None)
        return cells


def _column(definition: dict[str, Any]) -> Column:
    path = definition["jsonPath"]
    described = definition.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    kind, form = definition.get("type", "string"), definition.get("format", "")
    return Column(definition["name"], kind, form, described, definition.get("priority", 0))


def _cell(kind: str, value: Any, context: Context) -> Any:
    match kind:
        case "string":
            return text_of(value)
        case "integer" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
        case "number" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return _age(value, context)
        case _:
            return None


def _age(stamp: str, context: Context) -> str:
    if not stamp or stamp == "null":
        return "<unknown>"
    try:
        return human_duration(context.now_s - seconds(stamp))
    except ValueError:
        return "<invalid>"
