"""A real cluster on this machine: the control plane on loopback, and nodes with kubelets in namespaces of their own.

Never listens on anything but loopback and addresses inside those namespaces, and leaves nothing behind. Programs of
this machine reach the API server through the kubeconfig, pods at the Service `kubernetes`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kube_apimachinery import tls
from spinney.sim.kubernetes.assets import Assets, StartFailed, find_or_build_assets, find_or_build_node_programs
from spinney.sim.kubernetes.control_plane import ControlPlane, NodeNetwork, Settings, write_kubeconfig
from spinney.sim.kubernetes.node.images import write_busybox
from spinney.sim.kubernetes.node.machines import Machine, check
from spinney.sim.kubernetes.node.settings import (
    BRIDGE,
    DNS_ADDRESS,
    GATEWAY,
    PAUSE_IMAGE,
    Place,
    write_dns_settings,
    write_settings,
)
from spinney.sim.kubernetes.processes import Program
from spinney.sim.objects import KUBELET

GATEWAY_PROGRAM = Path(__file__).with_name("gateway.py")
BUSYBOX_IMAGE = "localhost/busybox:1"
NODE_CONTROLLERS = (
    "daemonset-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "taint-eviction-controller",
)
"""Of kube-controller-manager, those that pods with real containers need beside the ones for workloads."""
SCHEDULER_USER, PROXY_USER, DNS_USER = "system:kube-scheduler", "system:kube-proxy", "system:coredns"
_START_TIMEOUT_S = 120.0
_POLL_S = 0.1
_DNS_PORTS = [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """`directory` holds kubelet, kube-proxy, kube-scheduler and cluster-dns."""

    assets: Assets
    directory: Path


def find_or_build_programs() -> NodePrograms:
    """Of the control plane and of nodes; says first whether nodes can run here at all."""
    check()
    return NodePrograms(find_or_build_assets(), find_or_build_node_programs())


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    programs: NodePrograms
    directory: Path
    nodes: tuple[str, ...] = ("node-0",)
    controllers: tuple[str, ...] = ("*",)
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    port: int = 0
    scheduler: bool = True
    """Whether kube-scheduler runs."""
    images: tuple[Path, ...] = ()
    """Archives that every node is given at its start."""


class Cluster:
    """Runs between `start` and `stop`; also a context manager."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._directory = directory = settings.directory.resolve()
        self._places = [Place(index) for index in range(len(settings.nodes))]
        self.settings = settings
        self.machines = [Machine(name, directory / name) for name in settings.nodes]
        self._network = NodeNetwork(
            Place(0).address, directory / "gateway.sock", directory / "kubelets.crt", directory / "kubelets.key"
        )
        users = {**settings.users, SCHEDULER_USER: (), PROXY_USER: (), DNS_USER: ("system:masters",)}
        users |= {f"system:node:{name}": ("system:nodes",) for name in settings.nodes}
        self.plane = ControlPlane(
            Settings(settings.programs.assets, directory, settings.controllers, users, settings.port, self._network)
        )
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when every node is Ready."""
        check()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Nodes first, as if their power was cut."""
        for machine in self.machines:
            machine.stop()
        while self._programs:
            self._programs.pop().stop()
        self.plane.stop()

    def ended(self) -> str | None:
        """The name of a program that ended by itself, or None while all run."""
        own = (program.name for program in self._programs if program.ended() is not None)
        return self.plane.ended() or next(own, None) or next(filter(None, (m.ended() for m in self.machines)), None)

    def import_image(self, archive: Path) -> None:
        """Give an image, as `docker save` writes it, to every node."""
        words = ("ctr", "--namespace=k8s.io", "images", "import", str(archive.resolve()))
        with ThreadPoolExecutor(len(self.machines)) as threads:
            list(threads.map(lambda machine: machine.run(*words), self.machines))

    def kubectl(self, *words: str, given: str = "") -> str:
        """What kubectl says, with all rights."""
        program = str(self.settings.programs.assets.kubectl)
        words = (program, f"--kubeconfig={self.plane.kubeconfig}", *words)
        done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StartFailed(f"{' '.join(words[2:])}: {done.stderr.strip()}")
        return done.stdout

    def _start(self) -> None:
        directory = self._directory
        directory.mkdir(parents=True, exist_ok=True)
        write_client_of_kubelets(directory, self._network)
        for machine, place in zip(self.machines, self._places, strict=True):
            machine.start()
            write_settings(machine.directory, machine.name, place, machine.group.name)
            machine.launch("containerd", "containerd", "--config", str(machine.directory / "containerd.toml"))
        self._connect()
        self.plane.start()
        self._launch(directory, "gateway", *self._gateway())
        if self.settings.scheduler:
            self._launch(directory, "kube-scheduler", *self._scheduler())
        self._load_own_images()
        for machine in self.machines:
            self._start_node(machine)
        self._start_dns()
        self._await(self._is_ready, "Ready nodes")

    def _connect(self) -> None:
        """A network of the nodes, whose switch is in the first one's namespace; every node knows where pods are."""
        first = self.machines[0]
        first.ip("link", "add", BRIDGE, "type", "bridge")
        for index, machine in enumerate(self.machines[1:], start=1):
            peer = f"{BRIDGE}-{index}"
            machine.ip("link", "add", BRIDGE, "type", "veth", "peer", "name", peer, "netns", str(first.pid))
            first.ip("link", "set", peer, "master", BRIDGE, "up")
        for machine, place in zip(self.machines, self._places, strict=True):
            machine.ip("link", "set", "lo", "up")
            machine.ip("address", "add", f"{place.address}/24", "dev", BRIDGE)
            machine.ip("link", "set", BRIDGE, "up")
            machine.ip("route", "add", "default", "via", GATEWAY, "dev", BRIDGE)
            machine.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
            for other in self._places:
                if other != place:
                    machine.ip("route", "add", other.pods, "via", other.address)

    def _gateway(self) -> tuple[str, ...]:
        arguments = (str(self.machines[0].pid), str(self._network.socket), self._port, self._network.address)
        return (sys.executable, "-I", "-S", str(GATEWAY_PROGRAM), *arguments)

    @property
    def _port(self) -> str:
        return self.plane.url.rpartition(":")[2]

    def _scheduler(self) -> tuple[str, ...]:
        path = self._write_kubeconfig(self._directory / "scheduler.kubeconfig", SCHEDULER_USER, self.plane.url)
        program = self.settings.programs.directory / "kube-scheduler"
        return (str(program), f"--kubeconfig={path}", "--leader-elect=false", "--secure-port=0")

    def _load_own_images(self) -> None:
        archive = self._directory / "busybox.tar"
        write_busybox(archive, Path(shutil.which("busybox") or "/bin/busybox"), (PAUSE_IMAGE, BUSYBOX_IMAGE))
        sockets = [Path("/proc", str(m.pid), "root/run/containerd/containerd.sock") for m in self.machines]
        self._await(lambda: all(each.exists() for each in sockets), "containerd")
        for each in (archive, *self.settings.images):
            self.import_image(each)

    def _start_node(self, machine: Machine) -> None:
        directory, programs = machine.directory, self.settings.programs.directory
        shutil.copyfile(self._directory / "clients.crt", directory / "clients.crt")
        inside = f"https://{self._network.address}:{self._port}"
        kubeconfig = self._write_kubeconfig(directory / "kubeconfig", f"system:node:{machine.name}", inside)
        self._write_kubeconfig(directory / "proxy.kubeconfig", PROXY_USER, inside)
        machine.launch(
            "kubelet",
            str(programs / "kubelet"),
            f"--config={directory / 'kubelet.yaml'}",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={machine.name}",
            f"--node-labels={KUBELET}=",
            f"--node-ip={self._places[self.machines.index(machine)].address}",
        )
        machine.launch("kube-proxy", str(programs / "kube-proxy"), f"--config={directory / 'kube-proxy.yaml'}")

    def _start_dns(self) -> None:
        first = self.machines[0]
        inside = f"https://{self._network.address}:{self._port}"
        kubeconfig = self._write_kubeconfig(first.directory / "dns.kubeconfig", DNS_USER, inside)
        write_dns_settings(first.directory, kubeconfig)
        program = str(self.settings.programs.directory / "cluster-dns")
        first.launch("cluster-dns", program, "-conf", str(first.directory / "Corefile"))
        self.kubectl("apply", "-f", "-", given=json.dumps(_dns_objects(self._network.address)))

    def _write_kubeconfig(self, path: Path, user: str, url: str) -> Path:
        token, authority = self.plane.tokens[user], self.plane.authority
        write_kubeconfig(path, name="spinney-real", url=url, authority=authority, user=user, token=token)
        return path

    def _launch(self, directory: Path, name: str, *words: str) -> None:
        self._programs.append(Program(name, list(words), directory / f"{name}.log"))

    def _is_ready(self) -> bool:
        """Nodes take pods, and pods find an account."""
        ready = '{.items[*].status.conditions[?(@.type=="Ready")].status}'
        with contextlib.suppress(StartFailed):
            self.kubectl("get", "serviceaccount/default", "--namespace=default")
            return self.kubectl("get", "nodes", f"-o=jsonpath={ready}").split().count("True") == len(self.machines)
        return False

    def _await(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not done():
            if ended := self.ended():
                raise StartFailed(f"no {what}: {ended} ended by itself")
            if time.monotonic() > deadline:
                raise StartFailed(f"no {what} within {_START_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)


def write_client_of_kubelets(directory: Path, network: NodeNetwork) -> None:
    """The certificate by which kubelets know the API server; its authority has signed nothing else and is forgotten."""
    now_s = time.time()
    authority = tls.create_authority("spinney-kubelet-clients", now_s=now_s, days=365)
    (directory / "clients.crt").write_bytes(authority.certificate_pem)
    client = tls.issue(authority, ("kube-apiserver",), now_s=now_s, client=True)
    tls.save(client, network.certificate, network.key)


def _dns_objects(address: str) -> dict[str, Any]:
    """The Service that pods ask, and the program behind it."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": DNS_ADDRESS, "ports": _DNS_PORTS},
    }
    labels = {"kubernetes.io/service-name": "kube-dns"}
    behind = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": _DNS_PORTS,
    }
    return {"apiVersion": "v1", "kind": "List", "items": [service, behind]}
