"""A server whose operator's rules are in force: in process, or behind a webhook."""

from __future__ import annotations

import asyncio
import builtins
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cluster_kit.loops import running
from cluster_kit.server import Server, eventually
from cluster_kit.servers import kubectl_program
from cluster_kit.space import Space
from kube_apimachinery import tls
from kube_embedded.base.identity import MASTERS, Identity
from kube_embedded.server.embedded import Listen, ServerOptions, build, listening
from spinney.api.crds import crd
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings
from spinney.serve.webhook.configurations import Address, webhook_configurations
from spinney.serve.webhook.handler import Webhook
from spinney.serve.webhook.listener import serving
from spinney.sim.kubernetes.control_plane import write_kubeconfig

Json = dict[str, Any]
KINDS = ("ClusterTopology", "PodClique", "PodCliqueSet")
SETS = "grove.io/v1alpha1/podcliquesets"
CLIQUES = "grove.io/v1alpha1/podcliques"
TOPOLOGIES = "grove.io/v1alpha1/clustertopologies"
MARK = "admission-test"
"""The label of topologies that a test's webhooks judge; those of other tests are none of their business."""


@dataclass(frozen=True)
class Ruled:
    """A namespace and the cluster around it, where rules with these settings are asked."""

    space: Space
    cluster: Space
    settings: AdmissionSettings
    mark: str

    @property
    def server(self) -> Server:
        return self.space.server

    def kubectl(self, *arguments: str, **how: Any) -> Any:
        return self.server.kubectl("-n", self.space.namespace, *arguments, **how)


class LiveReader:
    """What rules look at, read from a server as anybody would."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Json | None:
        reply = await asyncio.to_thread(self._server.http, "GET", f"{_path(group, plural, namespace)}/{name}")
        return None if reply.status == 404 else reply.ok(200)

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        path = _path(group, plural, namespace)
        reply = await asyncio.to_thread(self._server.http, "GET", path, query={"labelSelector": chosen})
        found: builtins.list[Json] = reply.ok(200)["items"]
        return found


def _path(group: str, plural: str, namespace: str) -> str:
    root = f"/apis/{group}/v1alpha1" if group else "/api/v1"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def install(server: Server) -> None:
    """Our kinds, served. Definitions are shared by all tests of a server and stay."""
    cluster = Space(server, "")
    for kind in KINDS:
        definition = crd(kind)
        cluster.apply("customresourcedefinitions", definition, force="true")
        cluster.established(definition["metadata"]["name"])


@contextmanager
def in_process(settings: AdmissionSettings, scratch: Path) -> Iterator[Server]:
    """An embedded server of its own that asks the rules without a detour."""
    tokens = {"admin": secrets.token_urlsafe(24)}
    known = {tokens["admin"]: Identity("admin", groups=(MASTERS,))}
    options = ServerOptions(tokens=known, plugins=(OperatorAdmission(settings),))
    with running(listening(build(options), Listen())) as url:
        kubeconfig = scratch / "kubeconfig"
        write_kubeconfig(kubeconfig, name="embedded", url=url, authority=None, user="admin", token=tokens["admin"])
        server = Server(
            kind="embedded",
            url=url,
            kubeconfig=kubeconfig,
            authority=None,
            tokens=tokens,
            kubectl_program=kubectl_program(),
            scratch=scratch,
            expire_history=lambda revision: None,
        )
        try:
            yield server
        finally:
            server.close()


@contextmanager
def behind_webhook(ruled: Ruled) -> Iterator[None]:
    """The rules at the other end of HTTPS, and the server told to ask them, about what this test makes."""
    now = time.time()
    authority = tls.create_authority("webhook", now_s=now)
    leaf = tls.issue(authority, ["127.0.0.1"], now_s=now)
    webhook = Webhook(OperatorAdmission(ruled.settings), LiveReader(ruled.server))
    with running(serving(webhook, leaf)) as listener:
        address = Address(authority.certificate_pem, url=listener.url)
        for configuration in webhook_configurations(address, ["spinney-system"], ruled.mark, ruled.settings):
            for hook in configuration["webhooks"]:
                _narrow(hook, ruled)
            plural = f"{configuration['kind'].lower()}s"
            ruled.cluster.create(plural, configuration).ok(201)
        eventually(lambda: _is_asked(ruled), "the webhooks are asked")
        yield
        for kind in ("mutating", "validating"):
            ruled.cluster.delete(f"{kind}webhookconfigurations", ruled.mark).ok(200)


def _narrow(hook: Json, ruled: Ruled) -> None:
    if "namespaceSelector" in hook:
        hook["namespaceSelector"]["matchLabels"] = {"kubernetes.io/metadata.name": ruled.space.namespace}
    else:
        hook["objectSelector"] = {"matchLabels": {MARK: ruled.mark}}


def _is_asked(ruled: Ruled) -> bool:
    """Both configurations, for both kinds: what is missing is filled in, and what is wrong is refused."""
    containers = [{"name": "c", "image": "i"}]
    clique: dict[str, Any] = {"name": "w", "spec": {"podSpec": {"containers": containers}}}
    probe = workload("probe", {"cliques": [clique]})
    made = ruled.space.create(SETS, probe, dryRun="All").ok(201)
    if "minAvailable" not in made["spec"]["template"]["cliques"][0]["spec"]:
        return False
    clique["spec"]["podSpec"] = {"containers": containers, "nodeName": "n"}
    if ruled.space.create(SETS, probe, dryRun="All").status != 422:
        return False
    odd = {"domain": "host", "key": "example.com/host"}
    zone = {"domain": "zone", "key": "example.com/zone"}
    reply = ruled.cluster.create(TOPOLOGIES, topology(ruled, "probe", odd, zone), dryRun="All")
    return reply.ok(201)["spec"]["levels"] == [zone, odd] and bool(reply.warnings)


def workload(name: str, template: Json) -> Json:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": template},
    }


def topology(ruled: Ruled, name: str, *levels: Json) -> Json:
    """A topology whose name begins with the test's mark: topologies belong to the whole cluster."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": f"{ruled.mark}-{name}", "labels": {MARK: ruled.mark}},
        "spec": {"levels": list(levels)},
    }


def with_default(settings: AdmissionSettings, mark: str) -> AdmissionSettings:
    """The same settings with a default topology that no other test has."""
    return replace(settings, default_topology=f"{mark}-default")
