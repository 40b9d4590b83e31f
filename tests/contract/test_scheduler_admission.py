"""PodGroups and Queues through the front door: judged in process on the embedded server, by webhook on both (K3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cluster_kit.admission import MARK, Ruled, behind_webhook, in_process, with_default
from cluster_kit.space import Space
from contract.grouper_kinds import install
from spinney.core.admission.settings import AdmissionSettings

Json = dict[str, Any]
GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
QUEUES = "scheduling.run.ai/v2/queues"
RACK = "example.com/rack"


@pytest.fixture(params=["in process", "webhook", pytest.param("real", marks=pytest.mark.real)])
def ruled(request: pytest.FixtureRequest, unique: str, tmp_path: Path) -> Iterator[Ruled]:
    settings = with_default(AdmissionSettings(), unique)
    with ExitStack() as stack:
        if request.param == "in process":
            server = stack.enter_context(in_process(settings, tmp_path))
        else:
            server = request.getfixturevalue("_real" if request.param == "real" else "_embedded")
        install(server)
        namespaces = "/api/v1/namespaces"
        server.http("POST", namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique}}).ok(201)
        stack.callback(server.http, "DELETE", f"{namespaces}/{unique}")
        found = Ruled(Space(server, unique), Space(server, ""), settings, unique)
        stack.callback(found.cluster.clean)
        topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": unique}}
        found.cluster.create(
            "kai.scheduler/v1alpha1/topologies", {**topology, "spec": {"levels": [{"nodeLabel": RACK}]}}
        )
        if request.param != "in process":
            stack.enter_context(behind_webhook(found))
        yield found


def group(ruled: Ruled, level: str = RACK, topology: str = "", **spec: Any) -> Json:
    constraint = {"topology": topology or ruled.mark, "requiredTopologyLevel": level}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1, "topologyConstraint": constraint, **spec},
    }


def test_k3_a_group_that_cannot_work_is_refused_and_one_that_can_is_taken(ruled: Ruled) -> None:
    create = ruled.space.create
    create(GROUPS, group(ruled, subGroups=[{"name": "a", "parent": "b"}])).refused(
        422, "Invalid", "parent b of a was not found"
    )
    twice = [{"name": "a"}, {"name": "a"}]
    create(GROUPS, group(ruled, subGroups=twice)).refused(422, "Invalid", "duplicate subgroup name a")
    circle = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]
    create(GROUPS, group(ruled, subGroups=circle)).refused(422, "Invalid", "cycle detected in subgroups")
    create(GROUPS, group(ruled, "rak")).refused(422, "Invalid", "does not contain a level with this name")
    create(GROUPS, group(ruled, topology="nowhere")).refused(422, "Invalid", "topology nowhere does not exist")
    create(GROUPS, group(ruled)).ok(201)
    ruled.space.patch(GROUPS, "g", {"spec": {"topologyConstraint": {"topology": "nowhere"}}}).refused(
        422, "Invalid", "Requested topology nowhere does not exist"
    )
    ruled.space.patch(GROUPS, "g", {"status": {"phase": "Running"}}, sub="status").ok(200)


def test_k16_a_queue_without_resources_is_refused(ruled: Ruled) -> None:
    metadata = {"name": ruled.mark, "labels": {MARK: ruled.mark}}
    queue: Json = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": {}}
    ruled.cluster.create(QUEUES, queue).refused(422, "Invalid", "resources must be specified")
    queue["spec"] = {"resources": {"gpu": {"quota": 8, "overQuotaWeight": 1, "limit": -1}}}
    ruled.cluster.create(QUEUES, queue).ok(201)
