"""The webhook as it runs in a cluster: with its role's rights, behind shipped configurations, on both servers."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster_kit.admission import CLIQUES, SETS, TOPOLOGIES, workload
from cluster_kit.loops import running
from cluster_kit.recording import Record, RecordingTransport
from cluster_kit.server import Server, eventually
from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from kube_apimachinery.system_clock import SystemClock
from spinney.api.crds import Conversion, crd
from spinney.api.operator_configuration import load_configuration
from spinney.api.roles import NAMESPACE, ROLES
from spinney.api.roles.catalog import WEBHOOK_CERTIFICATES, WEBHOOK_CONFIGURATION
from spinney.cli.wiring.install_manifests import SERVICE, webhook_objects
from spinney.cli.wiring.roles.registry import RoleConfig, WebhookOptions
from spinney.cli.wiring.roles.webhook import WebhookRole
from spinney.drive.client.config.kubeconfig import connect, find_connection
from spinney.serve.webhook.certificates import Schedule
from spinney.sim.kubernetes.processes import free_ports
from stack_kit.bare import bare_server, kubeconfig_of_role

Json = dict[str, Any]
Start = Callable[..., WebhookRole]
CONFIGURATION = load_configuration(
    json.dumps(
        {
            "authorizer": {"enabled": True},
            "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
            "topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "zone", "key": "example.com/zone"}]},
        }
    )
)
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
ALWAYS_DUE = Schedule(settle_s=5.0, authority_margin_s=float("inf"))


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bare_server(request.param, tmp_path_factory.mktemp("webhook-role")) as found:
        yield found


@pytest.fixture
def ports() -> list[int]:
    """Of two replicas; the configurations name the first."""
    return free_ports(2)


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def start(server: Server, ports: list[int], record: Record, tmp_path: Path) -> Iterator[Start]:
    """A replica of the webhook; what is shipped for it is there, but with a URL, for nobody routes Services here."""
    cluster = Space(server, "")
    for obj in webhook_objects(NAMESPACE, CONFIGURATION):
        for hook in obj.get("webhooks", ()):
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"]["url"] = f"https://127.0.0.1:{ports[0]}{path}"
        space = Space(server, obj["metadata"].get("namespace", ""))
        space.apply(f"{obj['kind'].lower()}s", obj, force="true").ok(200, 201)
    definition = crd("DynamoGraphDeployment", Conversion(url=f"https://127.0.0.1:{ports[0]}/convert"))
    cluster.apply("customresourcedefinitions", definition, force="true").ok(200, 201)
    with ExitStack() as held:

        def begin(number: int = 0, schedule: Schedule | None = None) -> WebhookRole:
            connection = find_connection(SystemClock(), kubeconfig=kubeconfig_of_role(server, "webhook", tmp_path))
            told = RoleConfig(
                CONFIGURATION, connection, WebhookOptions(port=ports[number], service=f"{NAMESPACE}/{SERVICE}")
            )
            role = WebhookRole(told, RecordingTransport(connect(connection), record), schedule=schedule)
            held.enter_context(running(while_running(role)))
            eventually(lambda: not role.trouble(), "the webhook is ready")
            return role

        yield begin
    for configuration in CONFIGURATIONS:
        cluster.delete(configuration, WEBHOOK_CONFIGURATION).ok(200)
    Space(server, NAMESPACE).delete("secrets", WEBHOOK_CERTIFICATES).ok(200)


@asynccontextmanager
async def while_running(role: WebhookRole) -> AsyncIterator[None]:
    task = asyncio.create_task(role.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def clique(**spec: Any) -> Json:
    return {"name": "w", "spec": {"podSpec": {"containers": [{"name": "c", "image": "i"}]}, **spec}}


def packed(**template: Any) -> Json:
    return {"topologyConstraint": {"packDomain": "zone"}, "cliques": [clique()], **template}


def is_judged(server: Server) -> bool:
    """Whether a set without minAvailable gets it, and validation is asked; nothing is stored."""
    space = Space(server, "default")
    reply = space.create(SETS, workload("probe", {"cliques": [clique()]}), dryRun="All")
    wrong = space.create(SETS, workload("probe", {"cliques": [clique(minAvailable=7)]}), dryRun="All")
    return reply.status == 201 and wrong.status == 422


def bundle(server: Server, configuration: str = CONFIGURATIONS[1]) -> bytes:
    hooks = Space(server, "").get(configuration, WEBHOOK_CONFIGURATION).ok(200)["webhooks"]
    found = {hook["clientConfig"].get("caBundle", "") for hook in hooks}
    assert len(found) == 1, "all webhooks of a configuration trust the same"
    return base64.b64decode(found.pop())


def topology(name: str, *domains: str) -> Json:
    levels = [{"domain": domain, "key": f"example.com/{domain}"} for domain in domains]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def test_r14_c8_the_webhook_uses_every_right_of_its_role_and_no_other(
    server: Server, start: Start, record: Record
) -> None:
    start()
    eventually(lambda: is_judged(server), "the webhook is asked")
    space, cluster = Space(server, "default"), Space(server, "")
    for name in ("grove-topology", "other"):
        cluster.create(TOPOLOGIES, topology(name, "zone", "rack")).ok(201)
    made = space.create(SETS, workload("p", packed())).ok(201)
    assert made["metadata"]["labels"] == {"grove.io/topology-name": "grove-topology"}
    space.patch(SETS, "p", {"spec": {"template": {"clusterTopologyName": "other"}}}).ok(200)
    cluster.patch(
        TOPOLOGIES, "other", {"spec": {"levels": topology("other", "rack", "zone", "block")["spec"]["levels"]}}
    )
    assert [one["domain"] for one in cluster.get(TOPOLOGIES, "other").ok(200)["spec"]["levels"]] == [
        "zone",
        "block",
        "rack",
    ]
    managed(space)
    space.patch(CLIQUES, "p-0-w", {"spec": {"replicas": 5}}).refused(403, "Forbidden", "may not be changed")
    group = {"minMember": 1, "topologyConstraint": {"topology": "mine", "requiredTopologyLevel": "zone"}}
    space.create("scheduling.run.ai/v2alpha2/podgroups", podgroup("g", group))
    for kind, name in ((CLIQUES, "p-0-w"), (SETS, "p")):
        space.patch(SETS, "p", {"metadata": {"annotations": {"grove.io/disable-managed-resource-protection": "true"}}})
        space.delete(kind, name)
    cluster.clean()
    for configuration in CONFIGURATIONS:
        cluster.delete(configuration, WEBHOOK_CONFIGURATION).ok(200)
        eventually(lambda kind=configuration: cluster.exists(kind, WEBHOOK_CONFIGURATION), "it is made again", 60)  # type: ignore[misc]
    rights = ROLES["webhook"]
    assert record.differences(*rights.cluster, *rights.own_namespace) == {
        "used and not granted": [],
        "granted and not used": [],
    }
    assert record.forbidden == []


ALPHA, BETA = (f"nvidia.com/{version}/dynamographdeployments" for version in ("v1alpha1", "v1beta1"))


def graph(name: str, **service: Any) -> Json:
    """As the older version of the API says it."""
    main = {"componentType": "worker", "extraPodSpec": {"mainContainer": {"image": "i:1.0.0"}}}
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name},
        "spec": {"services": {"Worker": {**main, **service}}},
    }


def test_d12_versions_are_converted_with_a_bundle_that_is_kept_in_step(server: Server, start: Start) -> None:
    start(schedule=Schedule(settle_s=0.2))
    definitions, name = "customresourcedefinitions", "dynamographdeployments.nvidia.com"
    space, cluster = Space(server, "default"), Space(server, "")

    def trusted() -> bytes:
        conversion = cluster.get(definitions, name).ok(200)["spec"]["conversion"]
        assert conversion["strategy"] == "Webhook"
        return base64.b64decode(conversion["webhook"]["clientConfig"].get("caBundle", ""))

    eventually(lambda: trusted() == bundle(server), "the bundle is there")
    if server.kind == "embedded":
        return  # its own kinds it converts itself
    eventually(lambda: space.create(ALPHA, graph("d"), dryRun="All").status == 201, "the old version is served")
    space.create(ALPHA, graph("old")).ok(201)
    assert [each["name"] for each in space.get(BETA, "old").ok(200)["spec"]["components"]] == ["Worker"]
    wrong = graph("wrong", topologyConstraint={"packDomain": "zone"})
    wrong["spec"]["topologyConstraint"] = {"packDomain": "rack"}
    refused = space.create(ALPHA, wrong)
    assert refused.status == 422
    assert "spec.services[Worker].topologyConstraint.packDomain" in refused.body["message"]
    space.delete(BETA, "old").ok(200)


def test_c8_d7_a_topology_that_may_not_be_read_is_a_refusal(server: Server, start: Start) -> None:
    start()
    space, cluster = Space(server, "default"), Space(server, "")
    cluster.create(TOPOLOGIES, topology("grove-topology", "zone")).ok(201)
    main = {"name": "main", "image": "i:1.0.0"}
    beta = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "d"},
        "spec": {
            "topologyConstraint": {"packDomain": "zone"},
            "components": [{"name": "w", "podTemplate": {"spec": {"containers": [main]}}}],
        },
    }
    eventually(lambda: space.create(BETA, beta, dryRun="All").status == 201, "the webhook is asked")
    rights = cluster.get("clusterroles", "spinney-webhook").ok(200)
    fewer = [rule for rule in rights["rules"] if "clustertopologies" not in rule["resources"]]
    cluster.replace("clusterroles", {**rights, "rules": fewer}).ok(200)
    try:
        reply = eventually(lambda: _refusal(space, beta), "the right is gone")
        assert reply["code"] == 422
        assert (
            'spec.topologyConstraint.clusterTopologyName: Invalid value: "grove-topology": failed to read'
            in (reply["message"])
        )
        assert "forbidden" in reply["message"]
        plain = {**beta, "spec": {"components": beta["spec"]["components"]}}  # type: ignore[index]
        space.create(BETA, plain, dryRun="All").ok(201)
    finally:
        found = cluster.get("clusterroles", "spinney-webhook").ok(200)
        cluster.replace("clusterroles", {**found, "rules": rights["rules"]}).ok(200)
        cluster.clean()


def _refusal(space: Space, obj: Json) -> Json | None:
    reply = space.create(BETA, obj, dryRun="All")
    return None if reply.status == 201 else reply.body


def managed(space: Space) -> None:
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "p"}
    body = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {"name": "p-0-w", "labels": labels},
        "spec": {"podSpec": {"containers": []}, "replicas": 1, "minAvailable": 1},
    }
    space.create(CLIQUES, body).ok(201)


def podgroup(name: str, spec: Json) -> Json:
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def test_a_pod_of_5000_digits_keeps_nobody_from_being_judged(server: Server, start: Start) -> None:
    """The change of a topology makes the rules look at the pods of the set."""
    role = start()
    eventually(lambda: is_judged(server), "the webhook is asked")
    space, cluster = Space(server, "default"), Space(server, "")
    for name in ("digits-a", "digits-b"):
        cluster.create(TOPOLOGIES, topology(name, "zone", "rack")).ok(201)
    space.create(SETS, workload("digits", packed(clusterTopologyName="digits-a"))).ok(201)
    amounts = {"memory": "9" * 5000}
    vast = [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]
    labels = {"app.kubernetes.io/part-of": "digits"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vast", "labels": labels}}
    space.create("pods", {**pod, "spec": {"containers": vast}}).ok(201)
    space.patch("pods", "vast", {"metadata": {"annotations": {"a": "b"}}}).ok(200)
    space.patch(SETS, "digits", {"spec": {"template": {"clusterTopologyName": "digits-b"}}}).ok(200)
    failures = [count for name, count in role.figures().items() if 'code="5' in name or "faults" in name]
    assert sum(failures) == 0
    space.delete("pods", "vast", gracePeriodSeconds="0").ok(200)


def test_a_restart_goes_on_with_the_authorities_of_its_secret(server: Server, start: Start) -> None:
    start()
    first = bundle(server)
    start(1)
    assert bundle(server) == first
    assert first.count(b"BEGIN CERTIFICATE") == 1


def test_a_configuration_that_was_deleted_comes_back_until_the_rights_of_the_webhook_go(
    server: Server, start: Start
) -> None:
    """It is what was shipped, trusts the webhook, and goes with an uninstallation."""
    start()
    cluster = Space(server, "")
    owner = cluster.get("clusterroles", "spinney-webhook").ok(200)["metadata"]["uid"]
    shipped = {obj["kind"].lower() + "s": obj for obj in webhook_objects(NAMESPACE, CONFIGURATION)}
    for configuration in CONFIGURATIONS:
        trusted = bundle(server, configuration)
        cluster.delete(configuration, WEBHOOK_CONFIGURATION).ok(200)
        eventually(lambda kind=configuration: cluster.exists(kind, WEBHOOK_CONFIGURATION), "it is there again", 60)  # type: ignore[misc]
        found = cluster.get(configuration, WEBHOOK_CONFIGURATION).ok(200)
        assert [each["uid"] for each in found["metadata"]["ownerReferences"]] == [owner]
        for hook, as_shipped in zip(found["webhooks"], shipped[configuration]["webhooks"], strict=True):
            assert (hook["name"], hook["clientConfig"]["service"]) == (
                as_shipped["name"],
                as_shipped["clientConfig"]["service"],
            )
        assert bundle(server, configuration) == trusted


def test_what_was_taken_from_a_configuration_comes_back(server: Server, start: Start) -> None:
    start(schedule=Schedule(settle_s=0.2))
    found = Space(server, "").get(CONFIGURATIONS[0], WEBHOOK_CONFIGURATION).ok(200)
    for hook in found["webhooks"]:
        del hook["clientConfig"]["caBundle"]
    Space(server, "").replace(CONFIGURATIONS[0], found).ok(200)
    eventually(lambda: bundle(server, CONFIGURATIONS[0]) == bundle(server), "the bundle is back")


def shown(port: int, trusted: bytes) -> bytes:
    """The certificate that a new connection is shown; raises where the bundle does not make it trusted."""
    context = ssl.create_default_context(cadata=trusted.decode())
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=f"{SERVICE}.{NAMESPACE}.svc") as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def test_two_replicas_replace_their_authority_under_load_without_a_failed_call(
    server: Server, start: Start, ports: list[int]
) -> None:
    for number in (0, 1):
        start(number, ALWAYS_DUE)
    eventually(lambda: is_judged(server), "the webhook is asked")
    first = bundle(server)
    leaves: list[set[Any]] = [set(), set()]
    with under_load(server) as answers:
        until = time.monotonic() + 120
        while first.split(b"-----END")[0] in bundle(server):
            assert time.monotonic() < until, "the first authority is still trusted"
            trusted = bundle(server)
            for port, seen in zip(ports, leaves, strict=True):
                seen.add(shown(port, trusted))
        for port, seen in zip(ports, leaves, strict=True):
            seen.add(shown(port, bundle(server)))
            assert len(seen) >= 2
    print(f"{len(answers)} rounds of calls during a rotation, {answers.count(False)} failed")
    assert answers
    assert all(answers)


@contextmanager
def under_load(server: Server) -> Iterator[list[bool]]:
    """Others keep asking; whether each round of theirs was judged."""
    answers: list[bool] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            answers.append(is_judged(server))

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        try:
            yield answers
        finally:
            done.set()
    for each in asking:
        each.result()
