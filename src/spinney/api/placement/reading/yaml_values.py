"""YAML to plain JSON values: one document, keys that are texts and there once, no tags but the plain ones.

Dates and times stay text. The parser recurses in C and aliases multiply, so depth and size are bounded first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from spinney.api.placement.reading.unreadable import Path, Unreadable, show

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # built without libyaml
    from yaml import SafeLoader as _Base  # type: ignore[assignment]

MAX_NESTING = 500
MAX_ALIASED = 5_000_000
"""Values of a document with aliases, each alias counted as all that it stands for."""

_MAX_LOCATED = 2_000_000  # characters; finding a line means parsing once more
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_TRUE = ("yes", "true", "on")
_OPENING = re.compile(r"^[ \t?:-]*", re.MULTILINE)
_DECIMAL = r"[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*"
_SCALARS = {
    "bool": (r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    "int": (r"[-+]?(?:0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    "float": (rf"[-+]?(?:{_DECIMAL}|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)", "-+0123456789."),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
}


class _Loader(_Base):
    """Only what JSON has."""

    yaml_implicit_resolvers = {}  # noqa: RUF012
    yaml_constructors = {}  # noqa: RUF012


def load(text: str) -> Any:
    """The one document of a text; raises Unreadable with its line."""
    try:
        _check_nesting(text)
        value = yaml.load(text, _Loader)  # noqa: S506  it constructs less than the safe one
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable((), f"not YAML: {error.problem}", mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        raise Unreadable((), f"not YAML: {str(error).partition(chr(10))[0]}") from None
    except RecursionError:
        raise _nested() from None
    if "*" in text and "&" in text:
        _check_aliases(value)
    return value


def line_of(text: str, path: Path) -> int | None:
    """The line of a field, or of the nearest thing around it that is there."""
    if len(text) > _MAX_LOCATED:
        return None
    try:
        node = yaml.compose(text, _Loader)
    except (yaml.YAMLError, RecursionError):
        return None
    line: int | None = None
    for step in (None, *path):
        node = node if step is None else _child(node, step)
        if node is None:
            break
        line = node.start_mark.line + 1
    return line


def _child(node: Any, step: str | int) -> Any:
    match node:
        case yaml.MappingNode():
            return next((value for key, value in node.value if key.value == step), None)
        case yaml.SequenceNode() if isinstance(step, int) and step < len(node.value):
            return node.value[step]
        case _:
            return None


def _nested() -> Unreadable:
    return Unreadable((), f"found nesting beyond {MAX_NESTING} levels, allowed: at most {MAX_NESTING}")


def _check_nesting(text: str) -> None:
    """Most texts cannot be deep, as a count of brackets and indents shows; the others are parsed once to see."""
    indent = max(len(run) for run in _OPENING.findall(text))
    if text.count("[") + text.count("{") + 2 * indent < MAX_NESTING:
        return
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_NESTING:
            raise _nested()


def _check_aliases(value: Any) -> None:
    """A short text can name a value billions of times, or inside itself."""
    sizes: dict[int, int] = {}
    _size(value, sizes)


def _size(value: Any, sizes: dict[int, int]) -> int:
    if not isinstance(value, (dict, list)):
        return 1
    known = sizes.get(id(value))
    if known is not None:
        if not known:
            raise Unreadable((), "found an alias inside what it stands for, allowed: aliases of other values")
        return known
    sizes[id(value)] = 0
    children = value.values() if isinstance(value, dict) else value
    size = 1 + sum(_size(child, sizes) for child in children)
    if size > MAX_ALIASED:
        raise Unreadable((), f"found aliases for more than {MAX_ALIASED} values, allowed: fewer")
    sizes[id(value)] = size
    return size


def _refuse(node: Any, why: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(problem=why, problem_mark=node.start_mark)


def _null(loader: Any, node: Any) -> None:
    return None


def _text(loader: Any, node: Any) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _refuse(node, "found a collection that is tagged as a text")
    return str(node.value)


def _bool(loader: Any, node: Any) -> bool:
    return _text(loader, node).lower() in _TRUE


def _int(loader: Any, node: Any) -> int:
    text = _text(loader, node).replace("_", "")
    digits = text.lstrip("+-")
    base = 8 if re.fullmatch("0[0-7]+", digits) else 0
    try:
        return int(text, base)
    except ValueError:
        raise _refuse(node, f"found {show(text)}, which is no number to be read") from None


def _float(loader: Any, node: Any) -> float:
    text = _text(loader, node).replace("_", "").lower()
    try:
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise _refuse(node, f"found {show(text)}, which is no number to be read") from None


def _list(loader: Any, node: Any) -> Iterator[list[Any]]:
    values: list[Any] = []
    yield values
    if not isinstance(node, yaml.SequenceNode):
        raise _refuse(node, "found something else that is tagged as a list")
    values.extend(loader.construct_object(child) for child in node.value)


def _object(loader: Any, node: Any) -> Iterator[dict[str, Any]]:
    values: dict[str, Any] = {}
    yield values
    if not isinstance(node, yaml.MappingNode):
        raise _refuse(node, "found something else that is tagged as an object")
    merged: list[Any] = []
    for key_node, value_node in node.value:
        if key_node.tag == _MERGE:
            merged.append(value_node)
            continue
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise _refuse(key_node, f"found the key {show(key)}, allowed: a text (in quotes)")
        if key in values:
            raise _refuse(key_node, f"found the key {show(key)} again, allowed: each key once")
        values[key] = loader.construct_object(value_node)
    for value_node in merged:
        _merge(loader, value_node, values)


def _merge(loader: Any, node: Any, values: dict[str, Any]) -> None:
    """`<<`: keys of other maps that are not set here; the first map that has a key wins."""
    parts: Sequence[Any] = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for part in parts:
        other = loader.construct_object(part, deep=True)
        if not isinstance(other, dict):
            raise _refuse(part, f"found {show(other)} to be merged, allowed: an object")
        for key, value in other.items():
            values.setdefault(key, value)


def _unknown(loader: Any, node: Any) -> Any:
    raise _refuse(node, f"found the tag {show(node.tag)}, allowed: plain values")


for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), list(_first))
for _name, _constructor in {
    "null": _null, "bool": _bool, "int": _int, "float": _float, "str": _text, "seq": _list, "map": _object,
}.items():  # fmt: skip
    _Loader.add_constructor(_TAG + _name, _constructor)
_Loader.add_constructor(None, _unknown)
