"""`spinney manifests` before kubectl and both API servers: everything is accepted, twice, and pods may run."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster_kit.server import Server
from cluster_kit.servers import SERVERS
from kube_apimachinery import tls
from stack_kit.bare import bare_server
from stack_kit.spinney import SPINNEY

Json = dict[str, Any]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bare_server(request.param, tmp_path_factory.mktemp("manifests")) as found:
        yield found


def manifests(*words: str) -> str:
    return subprocess.run([*SPINNEY, "manifests", *words], capture_output=True, text=True, check=True).stdout


def served(server: Server, text: str) -> str:
    """The embedded server has no policies: it keeps by itself what they keep elsewhere."""
    if server.kind == "real":
        return text
    found = [each for each in yaml.safe_load_all(text) if not each["kind"].startswith("ValidatingAdmissionPolicy")]
    return yaml.safe_dump_all(found)


@pytest.mark.parametrize("how", [(), ("--server-side", "--force-conflicts")], ids=["client-side", "server-side"])
def test_everything_is_accepted_and_nothing_changes_the_second_time(server: Server, how: tuple[str, ...]) -> None:
    text = served(server, manifests("all", "-n", "gangs"))
    server.kubectl("apply", *how, "-f", "-", input=text)
    before = versions(server, text)
    assert len(before) == len(list(yaml.safe_load_all(text)))
    server.kubectl("apply", *how, "-f", "-", input=text)
    assert versions(server, text) == before
    for kind in ("mutating", "validating"):
        server.kubectl("delete", f"{kind}webhookconfigurations", "spinney")
    if server.kind == "real":
        for kind in ("policies", "policybindings"):
            server.kubectl("delete", f"validatingadmission{kind}", "-l", "app.kubernetes.io/part-of=spinney")


def test_b9_the_kinds_alone_are_applied_to_an_installed_cluster(server: Server) -> None:
    """Also when the webhook has made itself trusted as the converter of versions."""
    how = ("--server-side", "--force-conflicts", "-f", "-")
    server.kubectl("apply", *how, input=served(server, manifests("webhooks", "-n", "gangs")))
    trust = {"conversion": {"webhook": {"clientConfig": {"caBundle": base64.b64encode(_authority()).decode()}}}}
    change = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": trust}
    change["metadata"] = {"name": "dynamographdeployments.nvidia.com"}
    server.kubectl("apply", "--field-manager=webhook", *how, input=yaml.safe_dump(change))
    server.kubectl("apply", "--server-side", "-f", "-", input=manifests("crds", "-n", "gangs"))
    found = json.loads(server.kubectl("get", "crd", change["metadata"]["name"], "-o", "json").stdout)  # type: ignore[index]
    assert found["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
    for kind in ("mutating", "validating"):
        server.kubectl("delete", f"{kind}webhookconfigurations", "spinney")


def _authority() -> bytes:
    return tls.create_authority("webhook", now_s=time.time()).certificate_pem


def versions(server: Server, text: str) -> list[str]:
    """What was applied, each with the generation it has now, if it has one."""
    shown = "{range .items[*]}{.kind} {.metadata.name} {.metadata.generation}{'\\n'}{end}"
    return server.kubectl("get", "-f", "-", "-o", f"jsonpath={shown}", input=text).stdout.splitlines()


def test_the_pods_of_the_deployments_may_run_where_only_harmless_ones_may(server: Server) -> None:
    """The namespace admits restricted pods only; a real server refuses others."""
    text = served(server, manifests("all"))
    server.kubectl("apply", "-f", "-", input=text)
    found: list[Json] = [each for each in yaml.safe_load_all(text) if each["kind"] == "Deployment"]
    assert {each["metadata"]["name"] for each in found} >= {"spinney-operator", "spinney-webhook"}
    for each in found:
        pod = {"apiVersion": "v1", "kind": "Pod", **each["spec"]["template"]}
        pod["metadata"] |= {"name": each["metadata"]["name"], "namespace": each["metadata"]["namespace"]}
        done = server.kubectl("create", "--dry-run=server", "-f", "-", input=yaml.safe_dump(pod))
        assert "Warning" not in done.stderr
    if server.kind == "real":
        pod["spec"]["hostNetwork"] = True
        done = server.kubectl("create", "--dry-run=server", "-f", "-", input=yaml.safe_dump(pod), check=False)
        assert "violates PodSecurity" in done.stderr
