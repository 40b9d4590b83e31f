"""A real control plane with everything as it is installed, and every role as a process under its own service account.

Nothing is left out but what needs a cluster network: Deployments are processes here, and the API server calls the
webhook by a URL. Nodes are objects without kubelets.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from cluster_kit.real_programs import real_programs
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import SCHEDULER_LEASE, WEBHOOK_CONFIGURATION
from spinney.sim.kubernetes.control_plane import ControlPlane, Settings, controller_manager_flags
from spinney.sim.kubernetes.processes import Program, free_ports
from stack_kit.bare import kubeconfig_of_role, server_of
from stack_kit.spinney import SPINNEY

Json = dict[str, Any]

TENANT = "mallory"
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
CONFIGURATION: Json = {
    "authorizer": {"enabled": True},
    "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
    "topologyAwareScheduling": {
        "enabled": True,
        "levels": [{"domain": "zone", "key": ZONE}, {"domain": "rack", "key": RACK}],
    },
    "leaderElection": {
        "enabled": True,
        "leaseDuration": "30s",
        "renewDeadline": "20s",
        "retryPeriod": "500ms",
        "resourceNamespace": NAMESPACE,
    },
}
"""The lease is long: a busy machine is no attack, and a leader that changes is counted as one that was brought down."""
GUARDS = (
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
)
_CONTROLLERS = ("garbage-collector-controller", "namespace-controller")
_READY_S = 60.0


class Role:
    """One `spinney run`, with ports of its own."""

    def __init__(self, name: str, kubeconfig: Path, directory: Path, *words: str) -> None:
        self.name = name
        self._probes, self._metrics, *_ = free_ports(2)
        self._kubeconfig, self._directory, self._words = kubeconfig, directory, words
        directory.mkdir()
        self.start()

    def start(self) -> None:
        ports = {"healthProbes": {"port": self._probes}, "metrics": {"port": self._metrics}}
        config = self._directory / "config.json"
        config.write_text(json.dumps({**CONFIGURATION, "server": ports}))
        told = ["--kubeconfig", str(self._kubeconfig), "--config", str(config), *self._words]
        command = [*SPINNEY, "run", self.name.split("-")[0], *told]
        self._program = Program(self.name, command, self._directory / "log")

    @property
    def has_ended(self) -> bool:
        return self._program.ended() is not None

    @property
    def pid(self) -> int:
        """Of the role itself, not of who keeps it."""
        keeper = self._program.pid
        return int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])

    def get(self, page: str, port: int = 0) -> tuple[int, str]:
        try:
            address = f"http://127.0.0.1:{port or self._probes}{page}"
            answer = urllib3.request("GET", address, retries=False, timeout=20)
        except urllib3.exceptions.HTTPError as error:
            return 0, repr(error)
        return answer.status, answer.data.decode()

    def metrics(self) -> str:
        return self.get("/metrics", self._metrics)[1]

    def leads(self) -> bool:
        return f'spinney_leading{{role="{self.name.split("-")[0]}"}} 1' in self.metrics()

    def trouble(self) -> str:
        """Why it is not well; empty if it is."""
        if self.has_ended:
            return f"{self.name} ended with {self._program.ended()}: {self._program.tail()}"
        wrong = {page: self.get(page) for page in ("/healthz", "/readyz")}
        return "".join(f"{self.name}{page}: {found}" for page, found in wrong.items() if found[0] != 200)

    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def kill(self) -> None:
        """As `kill -9`."""
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: self.has_ended, f"{self.name} is gone", 20)

    def stop(self) -> None:
        self._program.stop()


@dataclass
class Installation:
    """The server with its roles; `tokens` of the server has the tenant's."""

    server: Server
    roles: dict[str, Role]
    pages: int
    """The port of the dashboard."""
    bind_s: list[float] = field(default_factory=list)
    """How long each gang of another tenant took to be bound, after an attack."""

    @property
    def cluster(self) -> Space:
        return Space(self.server, "")

    def page(self, path: str) -> tuple[int, str]:
        return self.roles["dashboard"].get(path, self.pages)

    def lease(self) -> tuple[str, int]:
        """Who leads, and how often that changed."""
        spec = Space(self.server, NAMESPACE).get("leases", SCHEDULER_LEASE).ok(200)["spec"]
        return spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0

    def pids(self) -> dict[str, int]:
        return {name: role.pid for name, role in self.roles.items()}

    def troubles(self) -> list[str]:
        return [trouble for role in self.roles.values() if (trouble := role.trouble())]

    def heal(self) -> None:
        """Start what has ended and what does not answer; a kubelet would."""
        for role in self.roles.values():
            if role.has_ended or role.get("/healthz")[0] != 200:
                role.stop()
                role.start()
        eventually(lambda: _all_well(self), "every role is ready", _READY_S)

    def schedulers(self) -> list[Role]:
        return [role for name, role in self.roles.items() if name.startswith("scheduler")]


@contextmanager
def installed(directory: Path) -> Iterator[Installation]:
    assets = real_programs()
    settings = Settings(assets, directory / "plane", (), {TENANT: ("tenants",)})
    with ExitStack() as held:
        plane = held.enter_context(ControlPlane(settings))
        server = server_of(plane, directory)
        held.callback(server.close)
        webhook_port, pages = free_ports(2)
        _apply(server, directory, webhook_port)
        flags = controller_manager_flags(server.kubeconfig, _CONTROLLERS)
        collector = Program(
            "kube-controller-manager", [str(assets.kube_controller_manager), *flags], directory / "collector.log"
        )
        held.callback(collector.stop)
        words = {
            "webhook": ("--service", f"{NAMESPACE}/spinney-webhook", "--webhook-port", str(webhook_port)),
            "operator": (),
            "scheduler-0": (),
            "scheduler-1": (),
            "dashboard": ("--address", f"127.0.0.1:{pages}"),
        }
        roles: dict[str, Role] = {}
        for name, told in words.items():
            kubeconfig = kubeconfig_of_role(server, name.split("-")[0], directory)
            roles[name] = Role(name, kubeconfig, directory / name, *told)
            held.callback(roles[name].stop)
            if name == "webhook":
                _wait_ready(roles[name])
        found = Installation(server, roles, pages)
        eventually(lambda: _all_well(found), "every role is ready", _READY_S)
        yield found


def _wait_ready(role: Role) -> None:
    """Nobody starts a role again here that ends because the webhook does not answer yet."""
    eventually(lambda: not role.trouble(), f"{role.name} is ready", _READY_S)


def _all_well(found: Installation) -> bool:
    for role in found.roles.values():
        assert not role.has_ended, role.trouble()
    troubles = found.troubles()
    assert not troubles, troubles
    return any(role.leads() for role in found.schedulers())


def _apply(server: Server, directory: Path, webhook_port: int) -> None:
    """`spinney manifests all`, but Deployments, and with URLs for the Service that nobody routes to here."""
    config = directory / "installed.json"
    config.write_text(json.dumps(CONFIGURATION))
    command = [*SPINNEY, "manifests", "all", "--config", str(config), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    objects = [each for each in json.loads(done.stdout)["items"] if each["kind"] != "Deployment"]
    for each in objects:
        _by_url(each, webhook_port)
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    server.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(listed))
    for each in objects:
        if each["kind"] == "CustomResourceDefinition":
            eventually(lambda spec=each["spec"]: _is_served(server, spec), f"{each['metadata']['name']} is served")  # type: ignore[misc]


def _is_served(server: Server, spec: Json) -> bool:
    """A kind whose versions the webhook converts fails until that runs."""
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    return server.http("GET", path).status in (200, 500)


def _by_url(obj: Json, port: int) -> None:
    """Wherever a Service is named to call the webhook, its address."""
    places = [hook["clientConfig"] for hook in obj.get("webhooks", ())]
    conversion = obj.get("spec", {}).get("conversion", {}).get("webhook")
    for place in [*places, *([conversion["clientConfig"]] if conversion else [])]:
        path = place.pop("service")["path"]
        place["url"] = f"https://127.0.0.1:{port}{path}"


@contextmanager
def without_admission(server: Server) -> Iterator[None]:
    """Every webhook configuration and admission policy of ours is gone meanwhile; who waits for that looks himself."""
    cluster = Space(server, "")
    taken = [(each, item) for each in GUARDS for item in cluster.list(each)["items"] if _is_ours(item)]
    assert taken, "nothing of ours admits anything"
    for collection, item in taken:
        cluster.delete(collection, item["metadata"]["name"]).ok(200)
    try:
        yield
    finally:
        for collection, item in reversed(taken):
            kept = {key: value for key, value in item["metadata"].items() if key in ("name", "labels", "annotations")}
            body = {key: value for key, value in item.items() if key != "status"}
            Space(server, "").create(collection, {**body, "metadata": kept}).ok(201)


def _is_ours(item: Json) -> bool:
    name = item["metadata"]["name"]
    return name == WEBHOOK_CONFIGURATION or name.endswith("spinney.dev")
