"""An API server of its own with simulated nodes, the operator's rules and an operator that can be told something else.

The embedded server asks the rules in process, the real one by webhook, as the product does it. What is played on the
stage is looked at through HTTP only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from cluster_kit.admission import LiveReader
from cluster_kit.loops import running
from cluster_kit.recording import Record, RecordingTransport
from cluster_kit.server import Reply, Server, eventually
from cluster_kit.servers import kubectl_program
from cluster_kit.space import Space
from kube_apimachinery import tls
from kube_apimachinery.admission import AdmissionRequest, Lookup, Verdict
from kube_apimachinery.system_clock import SystemClock, system_dice
from kube_embedded.base.identity import AUTHENTICATED, MASTERS, Identity, role_identity
from kube_embedded.server.embedded import Listen, ServerOptions, build, listening
from spinney.api.crds import all_crds
from spinney.api.operator_configuration import load_configuration
from spinney.api.roles import NAMESPACE, rbac_objects, user_of, users_in
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import settings_of as admission_settings_of
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.drive.client.http.transport import Transport
from spinney.drive.operator.operator import Operator
from spinney.drive.operator.settings_from_config import settings_of
from spinney.serve.webhook.configurations import Address, webhook_configurations
from spinney.serve.webhook.handler import Webhook
from spinney.serve.webhook.listener import serving
from spinney.sim.kubernetes.assets import Assets
from spinney.sim.kubernetes.control_plane import ControlPlane, Settings, controller_manager_flags, write_kubeconfig
from spinney.sim.kubernetes.processes import Program
from spinney.sim.nodes.pod_lifecycle import Timing
from spinney.sim.nodes.simulated_nodes import NodeBehaviour
from spinney.sim.stack import Parts, Stack
from spinney.sim.world import RECORD_KEYS
from spinney.whatif.inputs.nodes import load_nodes

Json = dict[str, Any]

DEADLINE_S = 150.0
OPERATOR = user_of("operator")
COLLECTIONS = {
    "ClusterTopology": "grove.io/v1alpha1/clustertopologies",
    "ClusterTopologyBinding": "grove.io/v1alpha1/clustertopologybindings",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1/customresourcedefinitions",
    "ComputeDomain": "resource.nvidia.com/v1beta1/computedomains",
    "Event": "events",
    "Node": "nodes",
    "Pod": "pods",
    "PodClique": "grove.io/v1alpha1/podcliques",
    "PodCliqueScalingGroup": "grove.io/v1alpha1/podcliquescalinggroups",
    "PodCliqueSet": "grove.io/v1alpha1/podcliquesets",
    "PodGang": "scheduler.grove.io/v1alpha1/podgangs",
    "PodGroup": "scheduling.run.ai/v2alpha2/podgroups",
    "Topology": "kai.scheduler/v1alpha1/topologies",
}
CLUSTER_WIDE = ("ClusterTopology", "ClusterTopologyBinding", "CustomResourceDefinition", "Node", "Topology")
_QUICK = Timing(start_s=0.02, init_s=0.02, finish_s=0.02, stop_s=0.02)


class Rules:
    """The rules in force, which an operator with another configuration replaces."""

    def __init__(self) -> None:
        self._now: OperatorAdmission | None = None

    def put(self, rules: OperatorAdmission) -> None:
        self._now = rules

    def handles(self, request: AdmissionRequest) -> bool:
        return self._now is not None and self._now.handles(request)

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        assert self._now is not None
        return self._now.mutate(request, lookup)

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        assert self._now is not None
        return self._now.validate(request, lookup)


class Stage:
    """One cluster. `operate` begins, or begins anew with another configuration; `record` is what operators did."""

    def __init__(self, server: Server, rules: Rules) -> None:
        self.server = server
        self.record = Record()
        self._rules = rules
        self._space, self._cluster = Space(server, "default"), Space(server, "")
        self._operator = contextlib.ExitStack()

    def operate(self, configuration: Json, wrap: Callable[[Transport], Transport] = lambda inner: inner) -> None:
        self.halt()
        told = load_configuration(json.dumps(configuration))
        self._rules.put(OperatorAdmission(admission_settings_of(told, users_in())))
        kubeconfig = self.server.kubeconfig_of(OPERATOR)
        connected = connect(find_connection(SystemClock(), kubeconfig=kubeconfig))
        transport = wrap(RecordingTransport(connected, self.record))
        operator = Operator(transport, SystemClock(), system_dice(), settings_of(told))
        self._operator.enter_context(running(while_running(operator.run, operator.ready, transport.close)))
        self.eventually(self._is_judged, "the rules are asked")

    def _is_judged(self) -> bool:
        """What is missing is filled in, and what is wrong is refused; nothing is stored."""
        clique: Json = {"name": "w", "spec": {"podSpec": {"containers": [{"name": "c", "image": "i"}]}}}
        probe = {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "probe"},
            "spec": {"template": {"cliques": [clique]}},
        }
        space, collection = self.space("PodCliqueSet")
        made = space.create(collection, probe, dryRun="All").ok(201)
        clique["spec"]["podSpec"]["nodeName"] = "n"
        refused = space.create(collection, probe, dryRun="All").status == 422
        return refused and "minAvailable" in made["spec"]["template"]["cliques"][0]["spec"]

    def halt(self) -> None:
        self._operator.close()

    def space(self, kind: str) -> tuple[Space, str]:
        return (self._cluster if kind in CLUSTER_WIDE else self._space), COLLECTIONS[kind]

    def create(self, manifest: Json) -> Reply:
        space, collection = self.space(manifest["kind"])
        return space.create(collection, manifest)

    def apply(self, *manifests: Json) -> None:
        for manifest in manifests:
            space, collection = self.space(manifest["kind"])
            space.apply(collection, manifest, force="true").ok(200, 201)

    def get(self, kind: str, name: str) -> Json:
        space, collection = self.space(kind)
        found: Json = space.get(collection, name).ok(200)
        return found

    def find(self, kind: str, **query: Any) -> list[Json]:
        space, collection = self.space(kind)
        found: list[Json] = space.list(collection, **query)["items"]
        return found

    def part_of(self, kind: str, name: str) -> list[Json]:
        return self.find(kind, labelSelector=f"app.kubernetes.io/part-of={name}")

    def exists(self, kind: str, name: str) -> bool:
        space, collection = self.space(kind)
        return space.exists(collection, name)

    def patch(self, kind: str, name: str, body: Json, sub: str = "") -> Reply:
        space, collection = self.space(kind)
        return space.patch(collection, name, body, sub=sub)

    def scale(self, kind: str, name: str, replicas: int) -> Json:
        """Through the scale subresource; what it answers."""
        answer: Json = self.patch(kind, name, {"spec": {"replicas": replicas}}, sub="scale").ok(200)
        return answer

    def delete(self, kind: str, name: str) -> None:
        space, collection = self.space(kind)
        space.delete(collection, name).ok(200, 202)

    def events(self, kind: str, name: str) -> list[tuple[str, str]]:
        """Reason and message of the events about an object, in the order they came; not what came and went for it."""
        found = self.find("Event", fieldSelector=f"involvedObject.kind={kind},involvedObject.name={name}")
        by_age = sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))
        told = [each for each in by_age if not each["reason"].endswith("Successful")]
        return [(each["reason"], each["message"]) for each in told]

    def uids(self, kind: str, name: str) -> dict[str, str]:
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in self.part_of(kind, name)}

    def ready_pods(self, name: str, count: int) -> list[Json]:
        """The pods of a set once so many of them are ready, and no others are there."""

        def check() -> list[Json]:
            pods = self.part_of("Pod", name)
            assert sorted(map(is_ready, pods)) == [True] * count
            return pods

        found: list[Json] = self.eventually(check, f"{count} ready pods of {name}")
        return found

    def available(self, name: str, replicas: int = 1) -> Json:
        def check() -> Json:
            found = self.get("PodCliqueSet", name)
            status = found.get("status") or {}
            assert status.get("availableReplicas", 0) == replicas
            assert status.get("observedGeneration") == found["metadata"]["generation"]
            return found

        found: Json = self.eventually(check, f"{name} is available")
        return found

    def eventually(self, check: Callable[[], Any], what: str) -> Any:
        return eventually(check, what, DEADLINE_S)


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@contextmanager
def stage_on(
    assets: Assets | None,
    directory: Path,
    nodes: str,
    scheduler: SchedulerSettings | None = None,
    controllers: tuple[str, ...] = (),
) -> Iterator[Stage]:
    """On a real control plane of these programs, or on the embedded server; nobody operates yet.

    Without a scheduler pods are bound first fit. `controllers`: the small ones that make pods of workloads.
    """
    rules = Rules()
    with contextlib.ExitStack() as held:
        if assets is None:
            server = held.enter_context(_embedded(directory, rules))
        else:
            server = held.enter_context(_real(directory, assets))
        held.callback(server.close)
        cluster = Space(server, "")
        for definition in all_crds():
            cluster.apply("customresourcedefinitions", definition, force="true").ok(200, 201)
        for definition in all_crds():
            cluster.established(definition["metadata"]["name"])
        install_rights(server)
        if assets is not None:
            held.callback(_collector(assets, server, directory).stop)
            held.enter_context(_behind_webhook(server, rules))
        transport = connect(find_connection(SystemClock(), kubeconfig=server.kubeconfig))
        binds = None if scheduler is not None else lambda name: True
        described = load_nodes(nodes) if nodes else ()
        parts = Parts(
            described,
            NodeBehaviour(timing=_QUICK),
            controllers=controllers,
            binds=binds,
            scheduler=scheduler,
            record_keys=RECORD_KEYS,
        )
        stack = Stack(transport, SystemClock(), system_dice(), parts)
        held.enter_context(running(while_running(stack.run, stack.registered, transport.close)))
        stage = Stage(server, rules)
        held.callback(stage.halt)
        yield stage


def install_rights(server: Server) -> None:
    """The roles' accounts and rights, as they are shipped."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for obj in (namespace, *rbac_objects()):
        space = Space(server, obj["metadata"].get("namespace", ""))
        space.apply(f"{obj['kind'].lower()}s", obj, force="true").ok(200, 201)


@asynccontextmanager
async def while_running(run: Callable[[], Any], ready: asyncio.Event, close: Callable[[], Any]) -> AsyncIterator[None]:
    """It runs while the block does; a start that fails is raised."""
    task = asyncio.create_task(run())
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        yield
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
        await close()


@contextmanager
def _embedded(directory: Path, rules: Rules) -> Iterator[Server]:
    tokens = {name: secrets.token_urlsafe(24) for name in ("admin", OPERATOR)}
    known = {tokens["admin"]: Identity("admin", groups=(MASTERS, AUTHENTICATED))}
    known[tokens[OPERATOR]] = role_identity("operator")
    with running(listening(build(ServerOptions(tokens=known, plugins=(rules,))), Listen())) as url:
        kubeconfig = directory / "kubeconfig"
        write_kubeconfig(kubeconfig, name="embedded", url=url, authority=None, user="admin", token=tokens["admin"])
        yield _server("embedded", url, kubeconfig, None, tokens, directory)


@contextmanager
def _real(directory: Path, assets: Assets) -> Iterator[Server]:
    settings = Settings(assets, directory / "plane", (), {OPERATOR: role_identity("operator").groups})
    with ControlPlane(settings) as plane:
        yield _server("real", plane.url, plane.kubeconfig, plane.authority, plane.tokens, directory)


def _collector(assets: Assets, server: Server, directory: Path) -> Program:
    """The garbage collector looks for new kinds every half minute only: it is started when ours are there."""
    flags = controller_manager_flags(server.kubeconfig, ("garbage-collector-controller", "namespace-controller"))
    arguments = [str(assets.kube_controller_manager), *flags]
    return Program("kube-controller-manager", arguments, directory / "controller-manager.log")


def _server(
    kind: str, url: str, kubeconfig: Path, authority: Path | None, tokens: dict[str, str], directory: Path
) -> Server:
    return Server(kind, url, kubeconfig, authority, tokens, kubectl_program(), directory, lambda revision: None)


@contextmanager
def _behind_webhook(server: Server, rules: Rules) -> Iterator[None]:
    now = time.time()
    authority = tls.create_authority("webhook", now_s=now)
    webhook = Webhook(rules, LiveReader(server))
    with running(serving(webhook, tls.issue(authority, ["127.0.0.1"], now_s=now))) as listener:
        address = Address(authority.certificate_pem, url=listener.url)
        cluster = Space(server, "")
        for configuration in webhook_configurations(address, ["spinney-system"]):
            cluster.create(f"{configuration['kind'].lower()}s", configuration).ok(201)
        yield
