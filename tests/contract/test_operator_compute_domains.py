"""Multi-node NVLink on both servers: the kind is installed, domains come with replicas and go with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.operator_stages import CONFIGURATION, staged
from stack_kit.compute_domains import DEFINITION, gpu_pod, in_group
from stack_kit.stage import Stage

FINALIZER = "grove.io/computedomain-finalizer"


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(request.param, tmp_path_factory.mktemp("nvlink")) as found:
        cluster = Space(found.server, "")
        cluster.create("customresourcedefinitions", DEFINITION).ok(201)
        cluster.established(DEFINITION["metadata"]["name"])
        found.operate({**CONFIGURATION, "network": {"autoMNNVLEnabled": True}})
        yield found


def _set(name: str) -> dict[str, Any]:
    spec = {"replicas": 1, "minAvailable": 1, "podSpec": gpu_pod("1")}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "default", **in_group("ring")},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "w", "spec": {"roleName": "w", **spec}}]}},
    }


def _domains(stage: Stage, name: str) -> list[str]:
    return sorted(each["metadata"]["name"] for each in stage.part_of("ComputeDomain", name))


def test_g1_compute_domains_follow_the_replicas_and_go_with_the_set(stage: Stage) -> None:
    stage.create(_set("nv")).ok(201)

    def claimed() -> bool:
        assert _domains(stage, "nv") == ["nv-0-ring"]
        pods = stage.part_of("Pod", "nv")
        assert len(pods) == 1
        spec = pods[0]["spec"]
        expected = [{"name": "mnnvl-claim", "resourceClaimTemplateName": "nv-0-ring"}]
        assert spec["resourceClaims"] == expected
        assert spec["containers"][0]["resources"]["claims"] == [{"name": "mnnvl-claim"}]
        assert "claims" not in (spec["containers"][1].get("resources") or {})
        return True

    stage.eventually(claimed, "a domain and a pod that claims it")
    found = stage.get("ComputeDomain", "nv-0-ring")
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert found["metadata"]["labels"]["grove.io/mnnvl-group"] == "ring"
    stage.scale("PodCliqueSet", "nv", 2)
    stage.eventually(lambda: _domains(stage, "nv") == ["nv-0-ring", "nv-1-ring"], "a domain for the second replica")
    stage.scale("PodCliqueSet", "nv", 1)
    stage.eventually(lambda: _domains(stage, "nv") == ["nv-0-ring"], "the domain of the second replica goes")
    stage.delete("PodCliqueSet", "nv")
    stage.eventually(lambda: not _domains(stage, "nv"), "the last domain goes with the set")
    stage.eventually(lambda: not stage.exists("PodCliqueSet", "nv"), "the set is gone")
