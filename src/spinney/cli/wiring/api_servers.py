"""The API servers of `spinney up`: the embedded one and a real control plane; and its options, checked first.

Neither is reachable from elsewhere without TLS and a token. Beside a real one our webhook runs: started with it,
registered with it, and gone with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kube_apimachinery import tls
from kube_apimachinery.admission import AdmissionPlugin, Object
from kube_apimachinery.system_clock import SystemClock, system_dice
from kube_embedded.base.identity import ADMIN, AUTHENTICATED, MASTERS, AnonymousAccess, Identity, role_identity
from kube_embedded.server.embedded import Listen, ServerOptions, build, listening
from spinney.api.crds import all_crds
from spinney.api.documents import DocumentError, read_bounded, read_document
from spinney.api.dynamo_conversion import convert
from spinney.api.kinds.dynamographdeployment_v1alpha1 import DynamoGraphDeploymentV1Alpha1 as ALPHA
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.priority_classes import priority_classes
from spinney.api.roles import NAMESPACE, ROLES, rbac_objects, user_of
from spinney.cli.wiring.addresses import certificate_hosts, reachable_host
from spinney.cli.wiring.roles.registry import RoleConfig, WebhookOptions
from spinney.cli.wiring.roles.webhook import WebhookRole
from spinney.cli.wiring.scheduler_choices import NOTHING_SAID, SchedulerChoices
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Exists, written
from spinney.drive.client.api import ApiClient
from spinney.drive.client.config.credentials import Connection, Fixed, Grant
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import ResourcePath
from spinney.drive.scheduler.caches import PRIORITY_CLASSES
from spinney.serve.webhook.handler import CONVERT, MUTATE, VALIDATE
from spinney.sim.kubernetes.assets import Assets, StartFailed, find_or_build_assets
from spinney.sim.kubernetes.control_plane import (
    DEFAULT_CONTROLLERS,
    WORKLOAD_CONTROLLERS,
    ControlPlane,
    Settings,
    write_kubeconfig,
)
from spinney.sim.kubernetes.node.cluster import (
    NODE_CONTROLLERS,
    Cluster,
    ClusterSettings,
    NodePrograms,
    find_or_build_programs,
)
from spinney.sim.transport import InProcessTransport
from spinney.whatif.inputs.manifests import apply_all, manifests_of
from spinney.whatif.inputs.operator_settings import ConfigurationError

OURS = ("spinney", "spinney-real")
"""Names of the clusters in kubeconfigs that we write."""


@dataclass(frozen=True, slots=True)
class StackOptions:
    nodes_file: Path | None
    kubeconfig: Path
    host: str
    port: int
    data_dir: Path | None
    real: bool
    manifests: tuple[Path, ...]
    config: Path | None = None
    dashboard_port: int | None = None
    scheduler: SchedulerChoices = NOTHING_SAID
    kubelets: int = 0
    images: tuple[Path, ...] = ()

    def check(self) -> None:
        if self.kubelets and not self.real:
            raise ConfigurationError("--kubelet: a kubelet needs a real kube-apiserver; expected --real beside it")
        if self.images and not self.kubelets:
            raise ConfigurationError("--image: simulated nodes run no images; expected --kubelet beside it")
        if missing := [str(path) for path in self.images if not path.is_file()]:
            raise ConfigurationError(f"--image {', '.join(missing)}: no such file")
        if self.real and self.host not in ("127.0.0.1", "localhost"):
            raise ConfigurationError(f"--real listens on loopback only, found --host {self.host}")
        _check_kubeconfig(self.kubeconfig)


def _check_kubeconfig(path: Path) -> None:
    """It can be written, and nothing of somebody else's is lost by it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "rb") as file:
            content = read_bounded(file)
    except DocumentError:
        raise _somebody_elses(path) from None
    except OSError as error:
        raise ConfigurationError(f"--kubeconfig {path}: cannot be written: {error.strerror}") from error
    if content.strip() and not _is_ours(content):
        raise _somebody_elses(path)


def _somebody_elses(path: Path) -> ConfigurationError:
    return ConfigurationError(f"--kubeconfig {path}: holds something else and would be overwritten; name another file")


def _is_ours(content: bytes) -> bool:
    with contextlib.suppress(DocumentError, KeyError, TypeError):
        return all(cluster["name"] in OURS for cluster in read_document(content)["clusters"])
    return False


@contextlib.contextmanager
def only_user_of(data_dir: Path | None) -> Iterator[None]:
    """Hold the data directory, so that no second stack writes into it."""
    if data_dir is None:
        yield
        return
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = open(data_dir / "lock", "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigurationError(f"--data-dir {data_dir}: cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"--data-dir {data_dir}: another process is using it") from None
        yield


_SETS = ResourcePath(PodCliqueSet.GROUP, PodCliqueSet.VERSION, PodCliqueSet.PLURAL)
_ASKED_WITHIN_S = 30.0
_POLL_S = 0.02
_GRAPHS = ResourcePath(ALPHA.GROUP, ALPHA.VERSION, ALPHA.PLURAL)
_ANYTHING: dict[str, Any] = {
    "apiVersion": f"{PodCliqueSet.GROUP}/{PodCliqueSet.VERSION}",
    "kind": PodCliqueSet.KIND,
    "spec": {"template": {"cliques": [{"name": "a", "spec": {"podSpec": {"containers": [{"name": "c"}]}}}]}},
}

_ANY_GRAPH: dict[str, Any] = {
    "apiVersion": f"{ALPHA.GROUP}/{ALPHA.VERSION}",
    "kind": ALPHA.KIND,
    "spec": {"services": {"a": {"extraPodSpec": {"mainContainer": {"image": "i"}}}}},
}


@contextlib.asynccontextmanager
async def running_webhook(
    configuration: OperatorConfiguration, connection: Connection, admin: Transport, webhook: Transport
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """The webhook runs while the block does; gives what waits until the API server asks it about everything."""
    role_config = RoleConfig(configuration, connection, WebhookOptions(bind_address="127.0.0.1", port=0))
    role = WebhookRole(role_config, webhook, registrar=admin)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(role.run(), name="webhook")
        try:
            yield lambda: _asked(role, admin)
        finally:
            serving.cancel()


async def _asked(role: WebhookRole, admin: Transport) -> None:
    """An API server takes a moment to notice a configuration: it is asked, without effect, until it asks us."""
    door = Door(admin, system_dice(), field_manager="spinney-up")
    deadline = asyncio.get_running_loop().time() + _ASKED_WITHIN_S
    while not role.has_answered(MUTATE, VALIDATE, CONVERT):
        if asyncio.get_running_loop().time() > deadline:
            raise StartFailed(f"kube-apiserver does not ask the webhook: {role.trouble() or 'no call has come'}")
        if not role.trouble():
            await door.create(_SETS.ref("probe", "default"), _ANYTHING, dry_run=True)
            await door.create(_GRAPHS.ref("probe", "default"), _ANY_GRAPH, dry_run=True)
        await asyncio.sleep(_POLL_S)


CONVERTERS = {("nvidia.com", "DynamoGraphDeployment"): convert}
"""Kinds whose versions the embedded server converts in process, whatever their definition says of conversion."""


async def _at_once() -> None:
    """Rules in process need no introduction."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server: where it is, ways in for our own parts, and what of it has ended by itself.

    `as_role` gives a way in with the rights of a role. `judged` waits until admission rules are asked.
    """

    url: str
    transport: Transport
    ended: Callable[[], str | None]
    as_role: Callable[[str], Transport]
    judged: Callable[[], Awaitable[None]] = _at_once

    @property
    def operator(self) -> Transport:
        return self.as_role("operator")


@contextlib.asynccontextmanager
async def embedded(options: StackOptions, plugins: Sequence[AdmissionPlugin] = ()) -> AsyncIterator[ApiServer]:
    listen = Listen(options.host, options.port)
    token = _admin_token(options.data_dir)
    tokens = {token: Identity("admin", groups=(MASTERS, AUTHENTICATED))}
    tokens |= {secrets.token_urlsafe(24): role_identity(role) for role in ROLES}
    nobody = AnonymousAccess.ADMIN_ON_LOOPBACK if listen.is_loopback else AnonymousAccess.REFUSED
    with _directory(options.data_dir) as directory:
        authority: Path | None = None
        if not listen.is_loopback:
            listen, authority = _with_tls(listen, directory)
        server = build(ServerOptions(tokens, nobody, options.data_dir, plugins, CONVERTERS))
        async with listening(server, listen) as url:
            shown = url.replace(options.host, reachable_host(options.host))
            write_kubeconfig(
                options.kubeconfig, name="spinney", url=shown, authority=authority, user="admin", token=token
            )
            transport = InProcessTransport(server, ADMIN)
            await install_rights(transport)
            await install_kinds(transport, _converted_here())
            yield ApiServer(
                shown, transport, lambda: None, lambda role: InProcessTransport(server, role_identity(role))
            )


async def install_rights(transport: Transport) -> None:
    """Our roles' accounts and rights, as they are shipped."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    manifests = manifests_of([namespace, *rbac_objects()], "our own rights")
    door = Door(transport, system_dice(), field_manager="spinney-up")
    await apply_all(ApiClient(transport, system_dice()), door, manifests)


async def install_kinds(transport: Transport, definitions: list[Object]) -> None:
    door = Door(transport, system_dice(), field_manager="spinney-up")
    await apply_all(ApiClient(transport, system_dice()), door, manifests_of(definitions, "our own kinds"))
    for each in priority_classes():
        outcome = await door.create(PRIORITY_CLASSES.ref(each["metadata"]["name"]), each)
        if not isinstance(outcome, Exists):  # its value is its maker's and cannot be changed
            written(outcome)


def _converted_here() -> list[Object]:
    """The kinds of ours; where versions are converted in process, all of them are served."""
    found = all_crds()
    for definition in found:
        spec = definition["spec"]
        if (spec["group"], spec["names"]["kind"]) in CONVERTERS:
            spec["versions"] = [{**version, "served": True} for version in spec["versions"]]
    return found


def _unconverted() -> list[Object]:
    """The same without a word on conversion: that is the webhook's to say, and may be there from an earlier start."""
    found = all_crds()
    for definition in found:
        definition["spec"].pop("conversion", None)
    return found


def _admin_token(data_dir: Path | None) -> str:
    """Kept with the data: a kubeconfig in use elsewhere outlives a restart."""
    if data_dir is None:
        return secrets.token_urlsafe(24)
    path = data_dir / "admin.token"
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24))
    return path.read_text()


def _with_tls(listen: Listen, directory: Path) -> tuple[Listen, Path]:
    """Certificates of our own for an address that others can reach; the authority is kept, the leaf is new."""
    now = time.time()
    root, root_key = directory / "ca.crt", directory / "ca.key"
    if not root_key.exists():
        tls.save(tls.create_authority("spinney", now_s=now), root, root_key)
    leaf = tls.issue(tls.load(root, root_key), certificate_hosts(listen.host), now_s=now)
    tls.save(leaf, directory / "server.crt", directory / "server.key")
    return replace(listen, certificate=directory / "server.crt", key=directory / "server.key"), root


@contextlib.contextmanager
def _directory(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="spinney-") as scratch:
        yield Path(scratch)


@dataclass(frozen=True, slots=True)
class RealPrograms:
    """`node`: those of nodes with a kubelet, where there are any."""

    assets: Assets
    node: NodePrograms | None = None


def find_or_build_real(kubelets: int) -> RealPrograms:
    """Says first whether nodes can run here, then builds what is not there."""
    node = find_or_build_programs() if kubelets else None
    return RealPrograms(node.assets if node else find_or_build_assets(), node)


def _control_plane(
    options: StackOptions, programs: RealPrograms, directory: Path
) -> tuple[ControlPlane, ControlPlane | Cluster]:
    """The control plane, and what is started and stopped with it: itself, or all nodes too."""
    controllers = DEFAULT_CONTROLLERS + WORKLOAD_CONTROLLERS
    users = {user_of(role): role_identity(role).groups for role in ROLES}
    if programs.node is None:
        plane = ControlPlane(Settings(programs.assets, directory, controllers, users, options.port))
        return plane, plane
    names = tuple(f"kubelet-{index}" for index in range(options.kubelets))
    cluster = Cluster(
        ClusterSettings(
            programs.node,
            directory,
            names,
            controllers=controllers + NODE_CONTROLLERS,
            users=users,
            port=options.port,
            scheduler=False,
            images=options.images,
        )
    )
    return cluster.plane, cluster


@contextlib.asynccontextmanager
async def real(
    options: StackOptions, programs: RealPrograms, configuration: OperatorConfiguration
) -> AsyncIterator[ApiServer]:
    _check_port(options.port)
    with _directory(options.data_dir) as parent:
        plane, runs = _control_plane(options, programs, parent / "control-plane")
        try:
            await _to_the_end(runs.start)
            shutil.copyfile(plane.kubeconfig, options.kubeconfig)
            async with contextlib.AsyncExitStack() as held:
                admin = find_connection(SystemClock(), kubeconfig=plane.kubeconfig)
                transport = connect(admin)
                held.push_async_callback(transport.close)

                def as_role(role: str) -> Transport:
                    token = Grant({"authorization": f"Bearer {plane.tokens[user_of(role)]}"})
                    found = connect(replace(admin, credentials=Fixed(token)))
                    held.push_async_callback(found.close)
                    return found

                await install_rights(transport)
                await install_kinds(transport, _unconverted())
                judged = await held.enter_async_context(
                    running_webhook(configuration, admin, transport, as_role("webhook"))
                )
                yield ApiServer(plane.url, transport, runs.ended, as_role, judged)
        finally:
            await _to_the_end(runs.stop)


def _check_port(port: int) -> None:
    """Say that a port is taken before a program fails by it."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            raise StartFailed(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None


async def _to_the_end(work: Callable[[], None]) -> None:
    """In a thread, which cannot be stopped half way: who is cancelled meanwhile waits for it."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
