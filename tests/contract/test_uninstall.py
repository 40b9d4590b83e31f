"""`spinney uninstall` and the deletion of everything, on both API servers: nothing is left that waits."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster_kit.server import Server
from cluster_kit.servers import SERVERS
from contract.test_manifests import manifests, served
from stack_kit.bare import bare_server
from stack_kit.spinney import SPINNEY
from unit.operator.operator_world import clique, podcliqueset

FINALIZERS = {"podcliqueset": "grove.io/podcliqueset.grove.io", "clustertopology": "grove.io/clustertopology"}
TOPOLOGY = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopology",
    "metadata": {"name": "grove-topology"},
    "spec": {"levels": [{"domain": "host", "key": "kubernetes.io/hostname"}]},
}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with bare_server(request.param, tmp_path_factory.mktemp("uninstall")) as found:
        yield found


def found(server: Server, kind: str) -> list[Any]:
    items: list[Any] = json.loads(server.kubectl("get", kind, "-A", "-o", "json").stdout)["items"]
    return items


def test_b9_after_uninstall_a_deletion_of_all_manifests_does_not_wait(server: Server) -> None:
    """Also where deletion was begun in another order, and objects wait already for roles that are gone."""
    text = served(server, manifests("all"))
    kept = podcliqueset("kept", [clique("w")])
    for one in (TOPOLOGY, kept):
        server.kubectl("apply", "-f", "-", input=yaml.safe_dump(one))
    for kind, finalizer in FINALIZERS.items():
        (one,) = found(server, kind)
        patch = json.dumps({"metadata": {"finalizers": [finalizer]}})
        server.kubectl("patch", kind, one["metadata"]["name"], "--type=merge", "-p", patch)
    server.kubectl("apply", "-f", "-", input=text)
    server.kubectl("delete", "clustertopology", "grove-topology", "--wait=false")
    assert [each["metadata"]["name"] for each in found(server, "clustertopology")] == ["grove-topology"]

    command = [*SPINNEY, "uninstall", "--kubeconfig", str(server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert [line for line in done.stdout.splitlines() if line.startswith("released")] == [
        "released podcliquesets.grove.io default/kept",
        "released clustertopologies.grove.io grove-topology",
    ]
    assert found(server, "clustertopology") == found(server, "deployments") == []
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        assert found(server, kind) == []
    (set_left,) = found(server, "podcliqueset")
    assert "finalizers" not in set_left["metadata"]
    definitions = [each for each in yaml.safe_load_all(text) if each["kind"] == "CustomResourceDefinition"]
    kinds = yaml.safe_dump_all(definitions)
    server.kubectl("delete", "--ignore-not-found", "--timeout=60s", "-f", "-", input=kinds)
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout == ""
