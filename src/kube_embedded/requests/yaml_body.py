"""YAML as the API server reads it: the first document, plain scalars by the rules of Go's YAML 1.1, keys as text.

Times stay text, `1:30` is no number, and a key that is set again is reported with its line.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
import yaml.scanner

try:
    from yaml import CSafeLoader as _Base
except ImportError:  # built without libyaml
    from yaml import SafeLoader as _Base  # type: ignore[assignment]


class YamlError(ValueError):
    """A body that is not YAML."""


class _Loader(_Base):
    duplicates: list[str]
    yaml_implicit_resolvers = {}  # noqa: RUF012
    yaml_constructors = {  # noqa: RUF012
        tag: made
        for tag, made in _Base.yaml_constructors.items()
        if (tag or "").rpartition(":")[2] not in ("binary", "timestamp", "omap", "pairs", "set")
    }


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool",
    re.compile(r"^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF|y|Y|n|N)$"),
    list("yYnNtTfFoO"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^(?:[-+]?[0-9]*\.?[0-9]+(?:[eE][-+][0-9]+)?|[-+]?[0-9]+\.|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^(?:<<)$"), ["<"])
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])

_MAX_ALIASED = 100_000
_MAX_DIRECTIVES = 16
_MAX_DIGITS = 300
_DIRECTIVE = re.compile(rb"^%TAG", re.MULTILINE)
_NESTING = re.compile(rb"[\[{:?-]")  # nothing nests without one of these
_BOOLS = {"yes": True, "true": True, "on": True, "y": True}


def _text(loader: Any, node: Any) -> str:
    return str(loader.construct_scalar(node))


def _bool(loader: Any, node: Any) -> bool | str:
    text = loader.construct_scalar(node)
    if len(text) == 1:
        return str(text)
    return _BOOLS.get(text.lower(), False)


def _int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    if len(text) > _MAX_DIGITS:
        raise YamlError(f"found a number of {len(text)} digits")
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits[:2] in ("0x", "0b", "0o"):
        return sign * int(digits, 0)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)


def _float(loader: Any, node: Any) -> float | int:
    value = float(loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise YamlError(f"json: unsupported value: {value}")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _mapping(loader: Any, node: Any) -> Any:
    value: dict[str, Any] = {}
    yield value
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        name = _key(key)
        if name in value:
            loader.duplicates.append(f'  line {key_node.start_mark.line + 1}: key "{name}" already set in map')
        value[name] = loader.construct_object(value_node, deep=True)


def _key(key: Any) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case None:
            return "null"
        case int() | float():
            return str(key)
        case _:
            raise YamlError(f"invalid map key: {key!r}")


_Loader.add_constructor("tag:yaml.org,2002:bool", _bool)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _text)


def decode_yaml(body: bytes, max_depth: int) -> tuple[Any, list[str]]:
    """The first document and the complaints about keys that are set again, as one text."""
    loader = None
    try:
        _scan(body, max_depth)
        loader = _Loader(body)
        loader.duplicates = []
        value = loader.get_data() if loader.check_data() else None  # type: ignore[no-untyped-call]
    except YamlError:
        raise
    except (yaml.YAMLError, ValueError) as error:  # a number of thousands of digits is a ValueError too
        raise YamlError(_words(error)) from None
    finally:
        if loader is not None:
            loader.dispose()
    if b"*" in body and b"&" in body:
        value = _unshared(value, [_MAX_ALIASED])
    found = loader.duplicates
    return value, ["yaml: unmarshal errors:\n" + "\n".join(found)] if found else []


def _unshared(value: Any, budget: list[int]) -> Any:
    """Aliases written out, within reason: a short text can name a value billions of times."""
    budget[0] -= 1
    if budget[0] < 0:
        raise YamlError("document contains excessive aliasing")
    if isinstance(value, dict):
        return {key: _unshared(child, budget) for key, child in value.items()}
    if isinstance(value, list):
        return [_unshared(child, budget) for child in value]
    return value


class _Scan:
    """A body's events before anything is made of them: the parser composes by recursion in C, and aliases multiply."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._open: list[tuple[str | None, int, int]] = []  # anchor, values before it, height of what is in it
        self._anchors: dict[str, tuple[int, int]] = {}  # how many values, how high
        self._values = 0
        self._aliased = 0

    def see(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._values += 1
                if event.anchor is not None:
                    self._anchors[event.anchor] = (1, 0)
            case yaml.CollectionStartEvent():
                self._open.append((event.anchor, self._values, 0))
                self._values += 1
                self._check_depth(0)
            case yaml.CollectionEndEvent():
                anchor, before, height = self._open.pop()
                if anchor is not None:
                    self._anchors[anchor] = (self._values - before, height + 1)
                self._grow(height + 1)
            case yaml.AliasEvent():
                self._name(*self._anchors.get(event.anchor or "", (0, 0)))
            case yaml.DocumentStartEvent():
                self._anchors.clear()

    def _name(self, size: int, height: int) -> None:
        self._check_depth(height)
        self._grow(height)
        self._values += size
        self._aliased += size
        if self._aliased > _MAX_ALIASED:
            raise YamlError("document contains excessive aliasing")

    def _check_depth(self, more: int) -> None:
        if len(self._open) + more > self._max_depth:
            raise YamlError("exceeded max depth of 10000")

    def _grow(self, height: int) -> None:
        if self._open:
            anchor, before, known = self._open[-1]
            self._open[-1] = (anchor, before, max(known, height))


def _scan(body: bytes, max_depth: int) -> None:
    if len(_DIRECTIVE.findall(body)) > _MAX_DIRECTIVES:  # the parser compares each with all before it
        raise YamlError("found too many %TAG directives")
    if b"*" not in body and len(_NESTING.findall(body)) < max_depth:
        return
    scan = _Scan(max_depth)
    for event in yaml.parse(body, _Loader):
        scan.see(event)


def _words(error: Exception) -> str:
    """Go counts the lines of a mark from 0, and adds one where the scanner complains."""
    problem = getattr(error, "problem", None)
    if problem is None:
        return str(error).partition("\n")[0]
    marks = [getattr(error, name, None) for name in ("context_mark", "problem_mark")]
    line = next((mark.line for mark in marks if mark is not None and mark.line), 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"line {line}: {problem}" if line else str(problem)
