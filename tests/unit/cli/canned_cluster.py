"""A cluster that answers with the bytes it was given: also with objects that no store of ours would take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spinney.cli.main import cli
from spinney.drive.client.config import credentials, kubeconfig
from spinney.drive.client.errors import NotSent
from spinney.drive.client.http.transport import Response, Stream

Json = dict[str, Any]

TOO_DEEP = "@nested@"
"""Stands for a value that is nested deeper than any JSON decoder goes."""
_DEPTH = 3000


class CannedCluster:
    """Objects by plural. Lists and single objects are answered, everything else is not there."""

    def __init__(self, objects: Mapping[str, list[Json]]) -> None:
        self._objects = objects

    async def request(self, method: str, path: str, **_: Any) -> Response:
        assert method == "GET", f"{method} {path}: a look never writes"
        parts = path.removeprefix("/api/v1/").split("/")
        parts = parts[3:] if parts[:2] == ["", "apis"] else parts
        parts = parts[1:] if path.startswith("/apis/") else parts
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        found = [one for one in self._objects.get(parts[0], []) if _is_in(one, namespace)]
        if len(parts) == 1:
            return _answer(200, {"metadata": {"resourceVersion": "7"}, "items": found})
        named = [one for one in found if one["metadata"]["name"] == parts[1]]
        return _answer(200, named[0]) if named else _answer(404, {"kind": "Status", "code": 404, "reason": "NotFound"})

    def stream(self, path: str, **_: Any) -> AbstractAsyncContextManager[Stream]:
        raise NotSent(f"{path}: a look never watches")

    async def close(self) -> None:
        """Nothing is open."""


def run_on(
    monkeypatch: pytest.MonkeyPatch, objects: Mapping[str, list[Json]], *arguments: str, text: str | None = None
) -> Result:
    """A command against the cluster."""
    monkeypatch.setattr(kubeconfig, "find_connection", lambda *_, **__: credentials.Connection)
    monkeypatch.setattr(kubeconfig, "connect", lambda *_, **__: CannedCluster(objects))
    return CliRunner().invoke(cli, list(arguments), input=text)


def _is_in(one: Json, namespace: str) -> bool:
    return not namespace or one["metadata"].get("namespace", "") == namespace


def _answer(status: int, body: Json) -> Response:
    text = json.dumps(body).replace(f'"{TOO_DEEP}"', "[" * _DEPTH + "]" * _DEPTH)
    return Response(status, {}, text.encode())
