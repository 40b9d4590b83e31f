"""A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager as processes of ours.

Never listens on anything but 127.0.0.1 and never leaves a process behind. Programs reach it through a kubeconfig with a
bearer token.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from kube_apimachinery import tls
from spinney.sim.kubernetes.assets import AddressTaken, Assets, StartFailed
from spinney.sim.kubernetes.processes import Program, free_ports


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files."""

    authority: Path
    server: Path
    server_key: Path
    service_account_key: Path


@dataclass(frozen=True, slots=True)
class NodeNetwork:
    """How real nodes and the control plane reach one another, where there are any.

    kube-apiserver is at `address` for nodes and pods. It asks `socket` (HTTP CONNECT) for everything it wants to reach,
    and shows kubelets the certificate.
    """

    address: str
    socket: Path
    certificate: Path
    key: Path


def write_certificates(directory: Path, names: tuple[str, ...] = ("localhost",)) -> Certificates:
    """Make fresh keys and write them (the service account key only once); the authority's own key is forgotten.

    Only for loopback: the keys live as files beside the control plane's data.
    """
    now_s = time.time()
    authority = tls.create_authority("spinney-loopback-ca", now_s=now_s, days=365)
    paths = Certificates(
        directory / "ca.crt", directory / "server.crt", directory / "server.key", directory / "service-account.key"
    )
    paths.authority.write_bytes(authority.certificate_pem)
    tls.save(tls.issue(authority, ("127.0.0.1", *names), now_s=now_s), paths.server, paths.server_key)
    if not paths.service_account_key.exists():  # tokens outlive a restart as the objects do
        paths.service_account_key.touch(mode=0o600)
        paths.service_account_key.write_bytes(tls.create_key())
    return paths


def write_kubeconfig(path: Path, *, name: str, url: str, authority: Path | None, user: str, token: str) -> None:
    """Write a file with one cluster, one user and one context, readable by its owner only."""
    cluster: dict[str, Any] = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


# Each of these waits for, or undoes, the work of a controller that does not run here: new nodes would stay tainted, and
# volumes would keep finalizers that nobody removes. Without real nodes service accounts would be looked up before
# anybody made them.
DISABLED_ADMISSION = ("TaintNodesByCondition", "StorageObjectInUseProtection")
DISABLED_WITHOUT_NODES = ("ServiceAccount", *DISABLED_ADMISSION)


def etcd_flags(data: Path, client_port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
        "--snapshot-count=100000",
        "--quota-backend-bytes=4294967296",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=0",
    ]


def apiserver_flags(
    etcd_url: str, port: int, certificates: Certificates, tokens: Path, disabled: tuple[str, ...]
) -> list[str]:
    return [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={certificates.server}",
        f"--tls-private-key-file={certificates.server_key}",
        f"--client-ca-file={certificates.authority}",
        f"--token-auth-file={tokens}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.service_account_key}",
        f"--service-account-signing-key-file={certificates.service_account_key}",
        "--authorization-mode=RBAC",
        f"--disable-admission-plugins={','.join(disabled)}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
    ]


def node_flags(network: NodeNetwork, directory: Path) -> list[str]:
    """What kube-apiserver is told beside the rest, and instead of it, where nodes are real."""
    path = directory / "egress.yaml"
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(network.socket)}}}
    egress = {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }
    path.write_text(yaml.safe_dump(egress))
    return [
        f"--advertise-address={network.address}",
        "--endpoint-reconciler-type=master-count",
        "--authorization-mode=Node",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--kubelet-client-certificate={network.certificate}",
        f"--kubelet-client-key={network.key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--egress-selector-config-file={path}",
    ]


def controller_manager_flags(kubeconfig: Path, controllers: tuple[str, ...]) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-gc-syncs=20",
        "--concurrent-namespace-syncs=20",
    ]


def service_account_flags(certificates: Certificates) -> list[str]:
    """For pods that really run: what they are given to trust the API server by."""
    key = certificates.service_account_key
    return [f"--root-ca-file={certificates.authority}", f"--service-account-private-key-file={key}"]


ADMIN = "admin"
SERVICE_ADDRESS = "10.96.0.1"
"""Of the Service `kubernetes`, the first of its range."""
ADMIN_GROUP = "system:masters"
DEFAULT_CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "job-controller",
    "disruption-controller",
)
WORKLOAD_CONTROLLERS = (
    "cronjob-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
)
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
START_TIMEOUT_S = 120.0
POLL_S = 0.05
_STARTS = 3
_TAKEN = "address already in use"


@dataclass(frozen=True, slots=True)
class Settings:
    """What may differ from one control plane to another."""

    assets: Assets
    directory: Path
    controllers: tuple[str, ...] = DEFAULT_CONTROLLERS
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further users beside the administrator, each with the groups it is in."""
    port: int = 0
    """Where kube-apiserver listens; 0 is any free port."""
    network: NodeNetwork | None = None
    """Of real nodes, which need service accounts too."""


class ControlPlane:
    """Runs between `start` and `stop`; also a context manager."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.url = ""
        self.etcd_url = ""
        self.tokens = {name: secrets.token_urlsafe(24) for name in (ADMIN, *settings.users)}
        self._programs: list[Program] = []

    @property
    def kubeconfig(self) -> Path:
        return self.settings.directory / "kubeconfig"

    @property
    def authority(self) -> Path:
        return self.settings.directory / "ca.crt"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all three and return when the API server is ready and its own namespaces exist.

        A port that somebody else took in the moment before is no reason to fail: there are others.
        """
        for _ in range(_STARTS - 1):
            with contextlib.suppress(AddressTaken):
                self._start_or_stop()
                return
        self._start_or_stop()

    def _start_or_stop(self) -> None:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the programs in the reverse of the order in which they were started."""
        while self._programs:
            self._programs.pop().stop()

    def ended(self) -> str | None:
        """The name of a program that ended by itself, or None while all run."""
        return next((program.name for program in self._programs if program.ended() is not None), None)

    def _start(self) -> None:
        directory = self.settings.directory
        directory.mkdir(parents=True, exist_ok=True)
        network = self.settings.network
        names = ("localhost", "kubernetes.default.svc", SERVICE_ADDRESS, network.address) if network else ("localhost",)
        certificates = write_certificates(directory, names)
        tokens = self._write_tokens()
        etcd_port, peer_port, free_port = free_ports(3)
        port = self.settings.port or free_port
        self.url, self.etcd_url = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{etcd_port}"
        assets = self.settings.assets
        self._launch("etcd", assets.etcd, etcd_flags(directory / "etcd", etcd_port, peer_port))
        disabled = DISABLED_ADMISSION if network else DISABLED_WITHOUT_NODES
        flags = apiserver_flags(self.etcd_url, port, certificates, tokens, disabled)
        flags += node_flags(network, directory) if network else []
        self._launch("kube-apiserver", assets.kube_apiserver, flags)
        self._await_api(port, certificates)
        write_kubeconfig(
            self.kubeconfig,
            name="spinney-real",
            url=self.url,
            authority=certificates.authority,
            user=ADMIN,
            token=self.tokens[ADMIN],
        )
        if self.settings.controllers:
            flags = controller_manager_flags(self.kubeconfig, self.settings.controllers)
            flags += service_account_flags(certificates) if network else []
            self._launch("kube-controller-manager", assets.kube_controller_manager, flags)

    def _write_tokens(self) -> Path:
        groups = {ADMIN: (ADMIN_GROUP,), **self.settings.users}
        lines = [f'{self.tokens[name]},{name},{name},"{",".join(groups[name])}"\n' for name in self.tokens]
        path = self.settings.directory / "tokens.csv"
        path.touch(mode=0o600)
        path.write_text("".join(lines))
        return path

    def _launch(self, name: str, executable: Path, flags: list[str]) -> None:
        self._programs.append(Program(name, [str(executable), *flags], self.settings.directory / f"{name}.log"))

    def _await_api(self, port: int, certificates: Certificates) -> None:
        trust = ssl.create_default_context(cafile=certificates.authority)

        def answers(path: str) -> bool:
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=trust)
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {self.tokens[ADMIN]}"})
                return connection.getresponse().status == http.HTTPStatus.OK
            except (OSError, http.client.HTTPException):
                return False
            finally:
                connection.close()

        for path in ("/readyz", *(f"/api/v1/namespaces/{name}" for name in SYSTEM_NAMESPACES)):
            self._await(path, answers)

    def _await(self, path: str, answers: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(path):
            for program in self._programs:
                if program.ended() is not None:
                    tail = program.tail()
                    failure = AddressTaken if _TAKEN in tail else StartFailed
                    raise failure(f"{program.name} ended with code {program.ended()}:\n{tail}")
            if time.monotonic() > deadline:
                tails = "\n".join(f"{program.name}: {program.tail()}" for program in self._programs)
                raise StartFailed(f"{self.url}{path} did not answer 200 within {START_TIMEOUT_S:.0f} s\n{tails}")
            time.sleep(POLL_S)
