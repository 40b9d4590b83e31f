"""From the manifests of an earlier state to those of today and back, on a real API server with objects of users."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.real_programs import real_programs
from cluster_kit.server import Server, eventually
from cluster_kit.space import Space
from contract.test_manifests import manifests
from spinney.sim.kubernetes.control_plane import ControlPlane, Settings
from stack_kit.bare import server_of
from unit.operator.operator_world import clique, podcliqueset

pytestmark = pytest.mark.real

Json = dict[str, Any]
BEFORE = gzip.decompress((Path(__file__).parents[1] / "golden" / "manifests_before.yaml.gz").read_bytes()).decode()
"""What `spinney manifests all` printed before charts, policies and signed records."""

HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
SETS, CLIQUES = "grove.io/v1alpha1/podcliquesets", "grove.io/v1alpha1/podcliques"
GROUPS, QUEUES = "scheduling.run.ai/v2alpha2/podgroups", "scheduling.run.ai/v2/queues"
OWN = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodClique",
    "metadata": {"name": "own"},
    "spec": clique("own")["spec"],
}
GROUP = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "group"},
    "spec": {"minMember": 2, "queue": "queue"},
}
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "queue"},
    "spec": {"resources": {name: {"quota": -1, "limit": -1} for name in ("cpu", "gpu", "memory")}},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """An API server that has never seen our kinds."""
    with ControlPlane(Settings(real_programs(), tmp_path / "plane", ())) as plane:
        yield server_of(plane, tmp_path)


def install(server: Server, text: str) -> None:
    """As people do, without force. Nobody serves the webhook here, so that API servers are not told of it."""
    found = [each for each in yaml.safe_load_all(text) if each["kind"] not in HOOKS]
    kinds = [each for each in found if each["kind"] == "CustomResourceDefinition"]
    for part in (kinds, [each for each in found if each not in kinds]):
        server.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all(part))
        for each in kinds:
            Space(server, "").established(each["metadata"]["name"])


def objects(server: Server) -> dict[str, Json]:
    """What users have, without what servers note about writes."""
    space, cluster = Space(server, "default"), Space(server, "")
    found = [
        space.get(SETS, "set"),
        space.get(CLIQUES, "own"),
        space.get(GROUPS, "group"),
        cluster.get(QUEUES, "queue"),
    ]
    whole = [each.ok(200) for each in found]
    for each in whole:
        each["metadata"].pop("managedFields", None)
    return {each["kind"]: each for each in whole}


def stored(server: Server) -> dict[str, tuple[list[str], list[str]]]:
    """The versions in which objects of a kind may be stored, and those that are served."""
    listed = json.loads(server.kubectl("get", "customresourcedefinitions", "-o", "json").stdout)["items"]
    return {
        each["metadata"]["name"]: (
            each["status"]["storedVersions"],
            [version["name"] for version in each["spec"]["versions"] if version["served"]],
        )
        for each in listed
    }


def test_b9_an_upgrade_and_a_downgrade_conflict_with_nobody_and_change_no_object(server: Server) -> None:
    install(server, BEFORE)
    space, cluster = Space(server, "default"), Space(server, "")
    space.create(SETS, {**podcliqueset("set", [clique("a", 2)]), "metadata": {"name": "set"}}).ok(201)
    space.create(CLIQUES, OWN).ok(201)
    space.create(GROUPS, GROUP).ok(201)
    cluster.create(QUEUES, QUEUE).ok(201)
    before = objects(server)
    for text in (manifests("all"), BEFORE, manifests("all")):
        install(server, text)
        assert objects(server) == before
        for name, (kept, served) in stored(server).items():
            assert set(kept) <= set(served), f"{name}: stored as {kept}, served are {served}"
        scaled = space.patch(SETS, "set", {"metadata": {"labels": {"touched": "true"}}})
        eventually(lambda scaled=scaled: scaled.ok(200), "it can be written")  # type: ignore[misc]
        before = objects(server)
