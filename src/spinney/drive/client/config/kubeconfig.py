"""Reads and merges kubeconfig files as kubectl does, and resolves a context to a connection.

Never ignores a setting that would change our identity or the server: unsupported settings are refused by name, and
every error names the file, the field and what is allowed.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec

from kube_apimachinery.clock import Clock
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.documents import DocumentError, read_bounded, read_document
from spinney.drive.client.api import ApiClient
from spinney.drive.client.config.credentials import (
    Certificate,
    Connection,
    Credentials,
    Fixed,
    Grant,
    TokenFile,
    basic,
    bearer,
)
from spinney.drive.client.config.exec_plugin import MODES, VERSIONS, ExecCredentials, Plugin
from spinney.drive.client.errors import ConfigError
from spinney.drive.client.http.http_transport import HttpTransport
from spinney.drive.client.informers.unreadable import Unreadable

N = TypeVar("N", "_NamedCluster", "_NamedUser", "_NamedContext")

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Extension(msgspec.Struct):
    name: str
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[_Extension] | None = None


class _EnvironmentVariable(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str | None = None
    args: list[str] | None = None
    env: list[_EnvironmentVariable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class _User(msgspec.Struct, rename="kebab"):
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    password: str | None = None
    exec: _Exec | None = None
    auth_provider: Any = None
    as_: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: Any = None


class _Context(msgspec.Struct):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


@dataclass(frozen=True, slots=True)
class _Entry(Generic[N]):
    """A named entry and the file it comes from: relative paths are relative to that file."""

    file: Path
    where: str
    part: N

    def refusal(self, field: str, problem: str) -> ConfigError:
        return ConfigError(f"{self.file}: {self.where}{field}: {problem}")


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One or more merged files: entries of an earlier file take precedence."""

    source: str
    clusters: Mapping[str, _Entry[_NamedCluster]]
    users: Mapping[str, _Entry[_NamedUser]]
    contexts: Mapping[str, _Entry[_NamedContext]]
    current_context: str


def kubeconfig_paths(path: Path | None, env: Mapping[str, str] = os.environ) -> list[Path]:
    """The files to read: the given one, else those of KUBECONFIG, else the one in the home directory."""
    if path is not None:
        return [path]
    listed = [Path(part) for part in env.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    return [each for each in listed or [home / ".kube" / "config"] if each.exists()]


def read_kubeconfig(paths: Iterable[Path]) -> Kubeconfig:
    """Read and merge. Raises `ConfigError`."""
    paths = tuple(paths)
    files = [(path, _read(path)) for path in paths]
    current = next((file.current_context for _, file in files if file.current_context), "")
    return Kubeconfig(
        source=os.pathsep.join(map(str, paths)),
        clusters=_merge("clusters", "cluster", [(path, file.clusters or []) for path, file in files]),
        users=_merge("users", "user", [(path, file.users or []) for path, file in files]),
        contexts=_merge("contexts", "context", [(path, file.contexts or []) for path, file in files]),
        current_context=current,
    )


def connection_of(config: Kubeconfig, clock: Clock, context: str | None = None) -> Connection:
    """The connection of a context (the current one if none is named). Raises `ConfigError`."""
    chosen = _chosen_context(config, context)
    wanted = chosen.part.context
    cluster = _named(config.clusters, wanted.cluster, chosen, "cluster")
    fields = cluster.part.cluster
    credentials = _credentials(config, chosen, cluster, clock)
    return Connection(
        server=_server(cluster),
        credentials=credentials,
        ca=_content(cluster, "certificate-authority", fields.certificate_authority, fields.certificate_authority_data),
        verify=not fields.insecure_skip_tls_verify,
        tls_server_name=fields.tls_server_name or None,
        namespace=wanted.namespace or "default",
        source=str(cluster.file),
    )


def _read(path: Path) -> _File:
    try:
        with path.open("rb") as stream:
            found = read_document(read_bounded(stream, str(path)), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except DocumentError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(found, dict | None):
        raise ConfigError(
            f"{path}: found {type(found).__name__}, expected a kubeconfig with clusters, users and contexts"
        )
    try:
        return msgspec.convert(found if found is not None else {}, type=_File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None


def _merge(listed: str, part: str, files: Iterable[tuple[Path, list[N]]]) -> dict[str, _Entry[N]]:
    merged: dict[str, _Entry[N]] = {}
    for path, entries in files:
        names = [entry.name for entry in entries]
        for index, entry in enumerate(entries):
            if names.index(entry.name) != index:
                raise ConfigError(f"{path}: {listed}: found the name {entry.name!r} twice, expected it once")
            merged.setdefault(entry.name, _Entry(path, f"{listed}[{entry.name}].{part}.", entry))
    return merged


def _chosen_context(config: Kubeconfig, context: str | None) -> _Entry[_NamedContext]:
    name = context or config.current_context
    if not name:
        raise ConfigError(f"{config.source}: current-context: found none, expected {_one_of(config.contexts)}")
    if name not in config.contexts:
        field = "contexts" if context else "current-context"
        raise ConfigError(f"{config.source}: {field}: found no context {name!r}, expected {_one_of(config.contexts)}")
    return config.contexts[name]


def _named(entries: Mapping[str, _Entry[N]], name: str | None, context: _Entry[_NamedContext], field: str) -> _Entry[N]:
    if name is None or name not in entries:
        raise context.refusal(field, f"found {name!r}, expected {_one_of(entries)}")
    return entries[name]


def _server(cluster: _Entry[_NamedCluster]) -> str:
    fields = cluster.part.cluster
    if fields.proxy_url:
        raise cluster.refusal("proxy-url", "found one, expected none: proxies are not supported")
    if fields.insecure_skip_tls_verify and (fields.certificate_authority or fields.certificate_authority_data):
        raise cluster.refusal("insecure-skip-tls-verify", "found true, expected false beside a certificate-authority")
    server = fields.server or ""
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise cluster.refusal("server", f"found {server!r}, expected a URL like https://host:6443")
    return server


def _credentials(
    config: Kubeconfig, context: _Entry[_NamedContext], cluster: _Entry[_NamedCluster], clock: Clock
) -> Credentials:
    if not context.part.context.user:
        return Fixed(Grant())
    user = _named(config.users, context.part.context.user, context, "user")
    fields = user.part.user or _User()
    _refuse_unsupported(user, fields)
    certificate = _certificate(user, fields)
    if fields.token_file:
        return TokenFile(user.file.parent / fields.token_file, clock, certificate)
    if fields.token:
        return Fixed(Grant(bearer(fields.token), certificate))
    if fields.username:
        return Fixed(Grant(basic(fields.username, fields.password or ""), certificate))
    if fields.exec is not None and certificate is None:
        return ExecCredentials(_plugin(user, fields.exec, cluster), clock)
    return Fixed(Grant(certificate=certificate))


def _refuse_unsupported(user: _Entry[_NamedUser], fields: _User) -> None:
    if fields.auth_provider is not None:
        raise user.refusal("auth-provider", "found one, expected token, client-certificate, username or exec instead")
    for field, value in (
        ("as", fields.as_),
        ("as-uid", fields.as_uid),
        ("as-groups", fields.as_groups),
        ("as-user-extra", fields.as_user_extra),
    ):
        if value:
            raise user.refusal(field, "found one, expected none: impersonation is not supported")
    if fields.username and (fields.token or fields.token_file):
        raise user.refusal("username", "found one beside a token, expected only one of them")


def _certificate(user: _Entry[_NamedUser], fields: _User) -> Certificate | None:
    chain = _content(user, "client-certificate", fields.client_certificate, fields.client_certificate_data)
    key = _content(user, "client-key", fields.client_key, fields.client_key_data)
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        missing = "client-certificate" if chain is None else "client-key"
        raise user.refusal(missing, "found none, expected client-certificate and client-key together")
    return Certificate(chain, key)


def _content(entry: _Entry[Any], field: str, file: str | None, inline: str | None) -> bytes | None:
    """The content of a field given inline (base64) or as a file path; inline takes precedence, as in kubectl."""
    if inline:
        try:
            return base64.b64decode("".join(inline.split()), validate=True)
        except binascii.Error as error:
            raise entry.refusal(f"{field}-data", f"found no base64: {error}") from None
    if not file:
        return None
    path = entry.file.parent / file
    try:
        return path.read_bytes()
    except OSError as error:
        raise entry.refusal(field, f"{path} cannot be read: {error.strerror or error}") from error


def _plugin(user: _Entry[_NamedUser], fields: _Exec, cluster: _Entry[_NamedCluster]) -> Plugin:
    if fields.api_version not in VERSIONS:
        raise user.refusal("exec.apiVersion", f"found {fields.api_version!r}, expected {' or '.join(VERSIONS)}")
    mode = fields.interactive_mode or ("" if fields.api_version == VERSIONS[0] else "IfAvailable")
    if mode not in MODES:
        raise user.refusal("exec.interactiveMode", f"found {fields.interactive_mode!r}, expected {' or '.join(MODES)}")
    if not fields.command:
        raise user.refusal("exec.command", "found none, expected a program")
    command = fields.command
    if os.sep in command:
        command = str(user.file.parent / command)
    return Plugin(
        command=command,
        args=tuple(fields.args or ()),
        env={variable.name: variable.value for variable in fields.env or ()},
        api_version=fields.api_version,
        mode=mode,
        hint=fields.install_hint or "",
        cluster=_cluster_for_plugin(cluster) if fields.provide_cluster_info else None,
    )


def _cluster_for_plugin(cluster: _Entry[_NamedCluster]) -> dict[str, Any]:
    fields = cluster.part.cluster
    ca = _content(cluster, "certificate-authority", fields.certificate_authority, fields.certificate_authority_data)
    found: dict[str, Any] = {
        "server": fields.server,
        "tls-server-name": fields.tls_server_name,
        "insecure-skip-tls-verify": fields.insecure_skip_tls_verify or None,
        "certificate-authority-data": base64.b64encode(ca).decode() if ca else None,
        "config": next((each.extension for each in fields.extensions or () if each.name == _EXEC_EXTENSION), None),
    }
    return {name: value for name, value in found.items() if value is not None}


def _one_of(names: Iterable[str]) -> str:
    known = sorted(names)
    return f"one of {', '.join(known)}" if known else "one, but the files name none"


# The cluster to connect to: from a kubeconfig, or from the service account of the pod we run in. Never guessed:
# without a kubeconfig and outside of a pod a ConfigError is raised.

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(env: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> bool:
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()


def in_cluster_connection(
    clock: Clock, env: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection from the pod's service account. Raises `ConfigError` outside of a pod."""
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError("environment: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: expected both in a pod")
    namespace = directory / "namespace"
    return Connection(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=TokenFile(directory / "token", clock),
        ca=_read_bytes(directory / "ca.crt"),
        namespace=_read_bytes(namespace).decode().strip() if namespace.exists() else "default",
        source=str(directory),
    )


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error


def find_connection(
    clock: Clock,
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    env: Mapping[str, str] = os.environ,
) -> Connection:
    """The connection of the given kubeconfig, of KUBECONFIG, of the home directory, else of the surrounding cluster."""
    paths = kubeconfig_paths(kubeconfig, env)
    if paths:
        return connection_of(read_kubeconfig(paths), clock, context)
    if is_in_cluster(env):
        return in_cluster_connection(clock, env)
    raise ConfigError("no cluster: expected --kubeconfig, KUBECONFIG, ~/.kube/config or a service account in a pod")


def connect(connection: Connection, *, connections: int = 48) -> HttpTransport:
    """A transport to the server; nothing is opened before the first request."""
    return HttpTransport(connection, connections=connections)


@asynccontextmanager
async def cluster_client(
    kubeconfig: Path | None, unreadable: Unreadable | None = None, context: str | None = None
) -> AsyncIterator[ApiClient]:
    """A client of the cluster that `find_connection` finds, for one look at it; closed with the block."""
    transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig, context=context))
    try:
        yield ApiClient(transport, system_dice(), unreadable=unreadable)
    finally:
        await transport.close()
