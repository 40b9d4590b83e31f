"""YAML as the API server reads it: the first document, plain scalars by the rules of Go's YAML 1.1, keys as text.

Times stay text, `1:30` is no number, and a key that is set again is reported with its line.
"""

from __future__ import annotations

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
_BOOLS = {"yes": True, "true": True, "on": True, "y": True}


def _bool(loader: Any, node: Any) -> bool | str:
    text = loader.construct_scalar(node)
    if len(text) == 1:
        return str(text)
    return _BOOLS.get(text.lower(), False)


def _int(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits[:2] in ("0x", "0b", "0o"):
        return sign * int(digits, 0)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)


def _float(loader: Any, node: Any) -> float | int:
    value = float(loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))
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


def decode_yaml(body: bytes, max_depth: int) -> tuple[Any, list[str]]:
    """The first document and the complaints about keys that are set again, as one text."""
    _check_depth(body, max_depth)
    loader = None
    try:
        loader = _Loader(body)
        loader.duplicates = []
        value = loader.get_data() if loader.check_data() else None  # type: ignore[no-untyped-call]
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


def _check_depth(body: bytes, max_depth: int) -> None:
    """The parser recurses in C; hostile nesting must not reach it. Brackets in text count as well: they are rare."""
    depth = deepest = 0
    if body.count(b"[") + body.count(b"{") > max_depth or body.count(b"\n") > max_depth:
        for found in re.finditer(rb"[][{}]", body):
            depth += 1 if found.group() in b"[{" else -1
            deepest = max(deepest, depth)
        indent = max((len(line) - len(line.lstrip(b" -")) for line in body.split(b"\n")), default=0)
        deepest += indent // 2
    if deepest > max_depth:
        raise YamlError("exceeded max depth of 10000")


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
