"""Requests and replies as values, so that sockets and function calls are callers of equal rank; what a path means.

Only the shape of a path is read here; whether the resource exists is the registry's to say.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from kube_embedded.base.errors import ApiError, NoSuchPath
from kube_embedded.base.identity import Identity


class Target(msgspec.Struct, frozen=True):
    """The parts of a resource path; empty where a part is absent."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_target(path: str) -> Target | None:
    """`/api/v1/...` or `/apis/GROUP/VERSION/...` with at least a plural, else None."""
    if "//" in path:
        return None
    parts = path.split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if not parts[-1]:
        parts.pop()
    if len(parts) > 3 and parts[1] == "api":
        return _rest("", parts[2], parts[3:])
    if len(parts) > 4 and parts[1] == "apis":
        return _rest(parts[2], parts[3], parts[4:])
    return None


def _rest(group: str, version: str, rest: list[str]) -> Target | None:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    return Target(group, version, rest[0], namespace, *rest[1:])


JSON_TYPE = "application/json"
encode_json = msgspec.json.encode
decode_json = msgspec.json.decode


@dataclass(slots=True)
class HttpRequest:
    """One request. Header names are lower case; an identity given here is trusted and not asked for again."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    identity: Identity | None = None
    loopback: bool = True


@dataclass(slots=True)
class HttpReply:
    """One answer; a watch has a stream in place of a body."""

    status: int
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    content_type: str = JSON_TYPE
    stream: AsyncIterator[bytes] | None = None


def json_reply(value: Any, status: int = 200) -> HttpReply:
    return HttpReply(status, encode_json(value))


def error_reply(error: ApiError) -> HttpReply:
    if isinstance(error, NoSuchPath):
        return HttpReply(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
    return HttpReply(error.code, encode_json(error.status()), list(error.headers))


def pretty(body: bytes) -> bytes:
    """The same JSON with lines, for people."""
    return msgspec.json.format(body, indent=2) + b"\n"


def parse_query(query: str) -> dict[str, str]:
    """The last value of every key; an empty query costs nothing."""
    if not query:
        return {}
    return dict(parse_qsl(query, keep_blank_values=True))


def is_true(value: str | None) -> bool:
    """A boolean query parameter as the API server reads it: present and neither false nor 0."""
    return value is not None and value.lower() not in ("false", "0")
