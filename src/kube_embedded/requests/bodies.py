"""Request bodies: JSON, YAML or protobuf bytes to an object, or a clear refusal in Go's words.

Duplicate keys are found as the strict decoder finds them; unknown fields are not looked for here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import ApiError, bad_request, too_large, unsupported_media_type
from kube_embedded.builtins.decode import conform, refusal
from kube_embedded.requests.kernel import Call
from kube_embedded.requests.yaml_body import YamlError, decode_yaml

MAX_DEPTH = 300
"""Nesting that every walk over an object can follow; real objects stay far below."""

_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_GO_NAMES: dict[type, str] = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}


class _Kind(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def version(self) -> str: ...


class _Call(Protocol):
    @property
    def resource(self) -> _Kind: ...
    @property
    def query(self) -> dict[str, str]: ...
    def warn(self, text: str) -> None: ...


class TooDeep(ValueError):
    """Nested deeper than any object is."""


def decode_body(call: _Call, body: bytes, media: str) -> dict[str, Any]:
    """The object in a body. By the wish of the client, duplicate keys are an error, a warning or nothing."""
    mode = call.query.get("fieldValidation") or "Warn"
    kind = call.resource.kind
    obj, duplicates = decode(body, media, kind, duplicates=mode != "Ignore")
    if duplicates and mode == "Strict":
        raise strict_error(kind, call.resource.version, duplicates)
    if duplicates and mode == "Warn":
        for words in duplicates:
            call.warn(words)
    return obj


def strict_error(kind: str, version: str, problems: list[str]) -> ApiError:
    """What the strict decoder does not take: duplicate and unknown fields."""
    words = ", ".join(problems)
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {words}')


def decode(body: bytes, media: str, kind: str, duplicates: bool = True) -> tuple[dict[str, Any], list[str]]:
    """The object, and the duplicate fields in the words of the decoder (looked for only where asked)."""
    if media == "application/yaml":
        return _from_yaml(body, kind)
    try:
        value = decode_json(body)
        keys = count_keys(value)
    except UnicodeDecodeError:
        return decode(body.decode(errors="replace").encode(), media, kind, duplicates)
    except (msgspec.DecodeError, TooDeep, RecursionError) as error:
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {_words(body, error)}", body) from None
    obj = _object(value, body, kind)
    if duplicates and keys != body.count(b'":'):
        return obj, _duplicates(body)
    return obj, []


def unrecognized(kind: str, why: str, body: bytes) -> ApiError:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({_shown(body)})")


def require_type(obj: Mapping[str, Any], body: bytes, kind: str) -> None:
    """A custom object must name its kind and version itself; raises the refusal."""
    for field, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not obj.get(field):
            text = body.decode(errors="replace")
            raise unrecognized(kind, f"Object '{shown}' is missing in '{text}'", body)


def _number(text: str) -> float | int:
    """A whole float is an integer: Go writes both the same."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


_decoder = msgspec.json.Decoder(float_hook=_number)
decode_json: Callable[[bytes], Any] = _decoder.decode


def _from_yaml(body: bytes, kind: str) -> tuple[dict[str, Any], list[str]]:
    try:
        value, duplicates = decode_yaml(body, MAX_DEPTH)
    except YamlError as error:
        raise unrecognized(kind, f"yaml: {error}", body) from None
    return _object(value, body, kind), duplicates


def _object(value: Any, body: bytes, kind: str) -> dict[str, Any]:
    if isinstance(value, dict):
        for field in ("apiVersion", "kind"):
            found = value.get(field)
            if found is not None and not isinstance(found, str):
                why = f"json: cannot unmarshal {_go_name(found)} into Go struct field .{field} of type string"
                raise unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", body)
        return value
    if value is None:
        raise unrecognized(kind, f"Object 'Kind' is missing in '{body.decode(errors='replace')}'", body)
    why = f"json: cannot unmarshal {_go_name(value)} into Go value of type {_TYPE_META}"
    raise unrecognized(kind, f"couldn't get version/kind; json parse error: {why}", body)


def _go_name(value: Any) -> str:
    return _GO_NAMES.get(type(value), "object")


def count_keys(value: Any) -> int:
    """How many keys there are in all; level by level, since that is also how deep the nesting is found out."""
    keys, depth = 0, 0
    level = [value] if value.__class__ is dict or value.__class__ is list else []
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise TooDeep
        children: list[Any] = []
        for one in level:
            if one.__class__ is dict:
                keys += len(one)
                children += one.values()
            else:
                children += one
        level = [child for child in children if child.__class__ is dict or child.__class__ is list]
    return keys


def _duplicates(body: bytes) -> list[str]:
    """`duplicate field "spec.x"` for every key that is set again, in the order of the body."""
    found: list[str] = []
    _name_duplicates(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return [f'duplicate field "{path}"' for path in dict.fromkeys(found)]


class _Pairs(list[tuple[str, Any]]):
    """The pairs of an object, duplicates included."""


def _name_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, child in value:
            name = f"{path}.{key}" if path else key
            if key in seen:
                found.append(name)
            seen.add(key)
            _name_duplicates(child, name, found)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _name_duplicates(child, f"{path}[{index}]", found)


def _shown(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > 30 else ""
    start = body[:30]
    return (start.decode(errors="replace") if start.lstrip()[:1] == b"{" else start.hex()) + more


_CONTEXTS = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting ':'", "after object key"),
    ("Expecting value", "looking for beginning of value"),
    ("Extra data", "after top-level value"),
    ("Invalid control character", "in string literal"),
    ("Invalid \\\\escape", "in string escape code"),
    ("Illegal trailing comma", "looking for beginning of value"),
)


def _words(body: bytes, error: Exception) -> str:
    """The complaint of Go's decoder about a body."""
    if isinstance(error, (TooDeep, RecursionError)):
        return "invalid character '{' exceeded max depth"
    if str(error).startswith("json:"):
        return str(error).partition(" - at ")[0]
    text = body.decode(errors="replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as found:
        at, message = found.pos, found.msg
    except RecursionError:
        return "invalid character '{' exceeded max depth"
    except ValueError:  # more digits than any number has
        return "json: cannot unmarshal number into Go value of type int64"
    else:
        return f"invalid character {re.sub('^.*?: ', '', str(error))}"
    if at >= len(text) or message.startswith("Unterminated"):
        return "unexpected end of JSON input"
    context = next((words for start, words in _CONTEXTS if message.startswith(start)), "")
    if message.startswith("Expecting ','"):
        context = "after object key:value pair" if _inside_object(text[:at]) else "after array element"
    return f"invalid character {_quoted(text[at])} {context}"


def _quoted(char: str) -> str:
    return {"'": "'\\''", '"': "'\"'", "\n": "'\\n'", "\t": "'\\t'"}.get(char, f"'{char}'")


def _inside_object(text: str) -> bool:
    depth: list[str] = []
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[][{}]', text):
        if token in "[{":
            depth.append(token)
        elif token in "]}" and depth:
            depth.pop()
    return bool(depth) and depth[-1] == "{"


T = TypeVar("T")

MAX_BODY_BYTES = 3 * 1024 * 1024
PROTOBUF = "application/vnd.kubernetes.protobuf"
_LONG_YAML = 64 * 1024
_SHORT = 64
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_READABLE = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@lru_cache(maxsize=256)
def media_type(content_type: str) -> str:
    return content_type.split(";", 1)[0].strip().lower()


def read_object(call: Call, body: bytes, *, empty: bool = False) -> Object:
    """The object in a body; `empty` allows that there is none (options of a deletion)."""
    if len(body) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)
    if not body and empty:
        return {}
    media = media_type(call.content_type) or "application/json"
    if media == PROTOBUF:
        from kube_embedded.requests.protobuf import decode

        return decode(body)
    if media not in ("application/json", "application/yaml", "text/json", "*/*"):
        raise unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {_READABLE}"
        )
    if len(body) < _SHORT and call.resource.builtin and body.strip() == b"null":
        return {}
    obj = decode_body(call, body, media)
    return of_type(obj, _DELETE_OPTIONS) if empty else _typed(call, obj, body)


def of_type(obj: Object, component: str) -> Object:
    """The object, if its fields have the types of a built-in component that is no resource."""
    *_, version, kind = component.split(".")
    error = refusal(conform(obj, component), version, kind, strict=False)
    if error is not None:
        raise error
    return obj


def _typed(call: Call, obj: Object, body: bytes) -> Object:
    """Objects of custom kinds must say what they are; only we know what built-in ones are."""
    if not call.resource.builtin and call.target.subresource in ("", "status"):
        require_type(obj, body, call.resource.kind)
    return obj


def read_patch(body: bytes, *, yaml: bool = False) -> Any:
    """Any JSON value, for patches; a configuration to apply may be YAML."""
    if len(body) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)
    try:
        value = _json_or_yaml(body) if yaml else decode_json(body)
    except YamlError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if _deeper_than(value, MAX_DEPTH):
        raise bad_request("error decoding patch: exceeded max depth")
    return value


def _json_or_yaml(body: bytes) -> Any:
    """Most configurations are JSON, which is YAML too and read a hundred times faster."""
    if body[:1] == b"{":
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return decode_json(body)
    return decode_yaml(body, MAX_DEPTH)[0]


async def off_loop_if_long(read: Callable[[], T], body: bytes, content_type: str) -> T:
    """Read a body; long YAML in a thread, for it takes seconds and others are to be served meanwhile."""
    if len(body) > _LONG_YAML and body[:1] != b"{" and "yaml" in content_type:
        return await asyncio.to_thread(read)
    return read()


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [child for one in level for child in _children(one)]
        if not level:
            return False
    return True


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [child for child in value.values() if isinstance(child, (dict, list))]
    if isinstance(value, list):
        return [child for child in value if isinstance(child, (dict, list))]
    return []


def check_kind(call: Call, obj: Object, group_version: str, kind: str) -> None:
    """Kind and version, where a body names them, must be those of the endpoint."""
    found_version, found_kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if found_version and found_version != group_version:
        raise bad_request(
            f"the API version in the data ({found_version}) does not match the expected API version ({group_version})"
        )
    if found_kind and found_kind != kind and call.resource.builtin:
        version = group_version.rpartition("/")[2]
        raise bad_request(
            f'{found_kind} in version "{version}" cannot be handled as a {kind}: '
            f'no kind "{found_kind}" is registered for version "{found_version or group_version}"'
        )
