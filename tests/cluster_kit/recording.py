"""What a role does on an API server, in the words of RBAC: recorded at its transport, compared with its rights.

Also counts what an API server asks for beside the request itself: whoever hands out rights must hold them, and whoever
blocks the deletion of an owner must be allowed to set the owner's finalizers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Unpack

from spinney.api.crds import all_crds
from spinney.api.roles import Grant
from spinney.drive.client.http.transport import (
    RequestOptions,
    Response,
    Stream,
    StreamOptions,
    Transport,
    TransportTimeout,
)

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PLURALS = {(one["spec"]["group"], one["spec"]["names"]["kind"]): one["spec"]["names"]["plural"] for one in all_crds()}


class Use(NamedTuple):
    """A verb on a resource of a group; the name counts only where rights are limited to names."""

    group: str
    resource: str
    verb: str
    name: str = ""


@dataclass
class Record:
    """Everything that was used, and every refusal for want of a right."""

    used: set[Use] = field(default_factory=set)
    forbidden: list[str] = field(default_factory=list)

    def differences(self, *granted: Grant) -> dict[str, list[str]]:
        """Rights that were missing, and rights that nobody needed; both empty if roles equal use."""
        named = {(one.group, resource, verb) for one in granted if one.names for resource, verb in _pairs(one)}
        used = {use if use[:3] in named else use._replace(name="") for use in self.used}
        rights = {Use(one.group, *pair, name) for one in granted for pair in _pairs(one) for name in one.names or ("",)}
        return {
            "used and not granted": sorted(map(_shown, used - rights)),
            "granted and not used": sorted(map(_shown, rights - used)),
        }


def _pairs(one: Grant) -> Iterator[tuple[str, str]]:
    return ((resource, verb) for resource in one.resources for verb in one.verbs)


def _shown(use: Use) -> str:
    return f"{use.verb} {use.resource}{'.' if use.group else ''}{use.group} {use.name}".strip()


class RecordingTransport:
    """Another transport, watched."""

    def __init__(self, inner: Transport, record: Record) -> None:
        self._inner = inner
        self._record = record

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        answer = await self._inner.request(method, path, **options)
        # What the server does not know needs no right there.
        if answer.status == 403:
            self._record.forbidden.append(f"{method} {path}: {answer.body.decode(errors='replace')}")
        found = list(uses(method, path, options.get("body")))
        if answer.status != 404 or [use.verb for use in found] != ["list"]:
            self._record.used.update(found)
        if method == "PATCH" and answer.status == 201:  # applied, and was not there
            self._record.used.add(use_of("POST", path)._replace(name=""))
        return answer

    @asynccontextmanager
    async def stream(self, path: str, **options: Unpack[StreamOptions]) -> AsyncIterator[Stream]:
        async with self._inner.stream(path, **options) as stream:
            if stream.status != 404:
                name = (options.get("query") or {}).get("fieldSelector", "").removeprefix("metadata.name=")
                self._record.used.add(use_of("GET", path)._replace(verb="watch", name=name))
            yield stream

    async def close(self) -> None:
        await self._inner.close()


class LosesAnswers:
    """The answer to the first write of each kind gets lost, after it was written."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._lost: set[tuple[str, str]] = set()

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        answer = await self._inner.request(method, path, **options)
        if method not in ("POST", "PATCH") or answer.status >= 300:
            return answer
        kind = (method, use_of(method, path).resource)
        if kind not in self._lost:
            self._lost.add(kind)
            raise TransportTimeout(f"{method} {path}: the answer was lost")
        return answer

    def stream(self, path: str, **options: Unpack[StreamOptions]) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(path, **options)

    async def close(self) -> None:
        await self._inner.close()


def use_of(method: str, path: str) -> Use:
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, sub = (*rest, "", "")[:3]
    verb = ("get" if name else "list") if method == "GET" else _VERBS[method]
    return Use(group, f"{resource}/{sub}" if sub else resource, verb, name)


def uses(method: str, path: str, body: bytes | None) -> Iterator[Use]:
    """The use itself, and what it implies."""
    if path.count("/") < {"api": 3, "apis": 4}.get(path.split("/")[1], path.count("/") + 1):
        return  # discovery is everybody's
    yield use_of(method, path)
    content: Any = json.loads(body) if body and method in ("POST", "PATCH") else None
    if not isinstance(content, dict):
        return
    if path.startswith("/apis/rbac.authorization.k8s.io/"):
        yield from _handed_on(content)
    for owner in (content.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("blockOwnerDeletion"):
            group = owner["apiVersion"].rpartition("/")[0]
            yield Use(group, f"{_PLURALS[group, owner['kind']]}/finalizers", "update")


def _handed_on(role: dict[str, Any]) -> Iterator[Use]:
    for rule in role.get("rules") or ():
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Use(group, resource, verb)
