"""Request bodies: JSON, YAML or protobuf bytes to an object, or a clear refusal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from spinney.serve.apiserver.builtins.decode import conform, refusal
from spinney.serve.apiserver.errors import bad_request, too_large, unsupported_media_type
from spinney.serve.apiserver.kernel import Call
from spinney.serve.apiserver.resource import Object
from spinney.serve.apiserver.schema.decode import MAX_DEPTH, decode_body, decode_json, require_type
from spinney.serve.apiserver.schema.decode_yaml import YamlError, decode_yaml

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
        from spinney.serve.apiserver.protobuf import decode

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


async def unhurried(read: Callable[[], T], body: bytes, content_type: str) -> T:
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
