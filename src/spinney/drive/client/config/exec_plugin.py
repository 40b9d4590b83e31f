"""Credentials from a program named in the kubeconfig (client.authentication.k8s.io v1 and v1beta1).

Never goes through a shell, never runs twice at once, and never shows what the program printed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_apimachinery.clock import Clock
from kube_apimachinery.times import seconds
from spinney.api.documents import DocumentError, read_json_as
from spinney.drive.client.config.credentials import Certificate, Grant, bearer
from spinney.drive.client.errors import CredentialError

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MODES = ("Never", "IfAvailable", "Always")

_SILENT_RUN_S = 60.0
_EARLY_S = 10.0


@dataclass(frozen=True, slots=True)
class Plugin:
    """The plugin settings of the kubeconfig. `cluster` is the cluster information passed to it, if it is passed."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    api_version: str
    mode: str
    hint: str = ""
    cluster: Mapping[str, Any] | None = None


class _Spoken(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Spoken | None = None


class ExecCredentials:
    """Runs the program when there is no credential, when it is about to expire, and after a 401."""

    def __init__(self, plugin: Plugin, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._grant: Grant | None = None
        self._expires: float | None = None
        self._running = asyncio.Lock()

    async def grant(self) -> Grant:
        async with self._running:
            if self._grant is None or self._expired():
                spoken = _read(self._plugin, await _run(self._plugin))
                self._expires = _seconds(self._plugin, spoken.expiration_timestamp)
                self._grant = _grant(self._plugin, spoken)
            return self._grant

    def renew(self) -> bool:
        old, self._grant = self._grant, None
        return old is not None

    def _expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires - _EARLY_S


async def _run(plugin: Plugin) -> bytes:
    interactive = _interactive(plugin)
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": _question(plugin, interactive)},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {plugin.hint}" if plugin.hint else ""
        raise CredentialError(f"exec plugin {plugin.command}: cannot be started: {error}{hint}") from error
    try:
        async with asyncio.timeout(None if interactive else _SILENT_RUN_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise CredentialError(f"exec plugin {plugin.command}: no credential within {_SILENT_RUN_S} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise CredentialError(f"exec plugin {plugin.command}: found exit code {process.returncode}, expected 0")
    return output


def _interactive(plugin: Plugin) -> bool:
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.mode == "Always" and not terminal:
        raise CredentialError(f"exec plugin {plugin.command}: interactiveMode is Always, and there is no terminal")
    return terminal and plugin.mode != "Never"


def _question(plugin: Plugin, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    asked = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(asked).decode()


def _read(plugin: Plugin, output: bytes) -> _Spoken:
    try:
        answer = read_json_as(output, _ExecCredential)
    except DocumentError as error:
        raise CredentialError(f"exec plugin {plugin.command}: output is no ExecCredential: {error}") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        found = f"{answer.api_version} {answer.kind}"
        raise CredentialError(
            f"exec plugin {plugin.command}: found {found}, expected {plugin.api_version} ExecCredential"
        )
    if answer.status is None:
        raise CredentialError(f"exec plugin {plugin.command}: status: found none, expected a token or a certificate")
    return answer.status


def _grant(plugin: Plugin, spoken: _Spoken) -> Grant:
    if bool(spoken.client_certificate_data) != bool(spoken.client_key_data):
        raise CredentialError(
            f"exec plugin {plugin.command}: status: clientCertificateData and clientKeyData go together"
        )
    if not (spoken.token or spoken.client_certificate_data):
        raise CredentialError(
            f"exec plugin {plugin.command}: status: found neither token nor certificate, expected one of them"
        )
    certificate = None
    if spoken.client_certificate_data:
        certificate = Certificate(spoken.client_certificate_data.encode(), spoken.client_key_data.encode())
    return Grant(bearer(spoken.token) if spoken.token else {}, certificate)


def _seconds(plugin: Plugin, timestamp: str | None) -> float | None:
    if timestamp is None:
        return None
    try:
        return seconds(timestamp)
    except ValueError:
        raise CredentialError(
            f"exec plugin {plugin.command}: status.expirationTimestamp: found {timestamp!r}, expected RFC 3339"
        ) from None
