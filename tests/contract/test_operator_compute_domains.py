"""Multi-node NVLink on both servers: the kind is installed, domains come with replicas and go with them.

The behaviour is that which Grove's end-to-end tests of NVLink groups ask for; manifests and words are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster_kit.servers import SERVERS
from cluster_kit.space import Space
from contract.operator_stages import CONFIGURATION, staged
from stack_kit.compute_domains import DEFINITION, gpu_pod, in_group
from stack_kit.stage import Stage
from unit.operator.operator_world import clique, group, podcliqueset

FINALIZER = "grove.io/computedomain-finalizer"
GROUP = "grove.io/mnnvl-group"


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(request.param, tmp_path_factory.mktemp("nvlink")) as found:
        cluster = Space(found.server, "")
        cluster.create("customresourcedefinitions", DEFINITION).ok(201)
        cluster.established(DEFINITION["metadata"]["name"])
        found.operate({**CONFIGURATION, "network": {"autoMNNVLEnabled": True}})
        yield found


@pytest.fixture(scope="module")
def switched_off(stage: Stage) -> Iterator[Stage]:
    """The same cluster while the operator has NVLink switched off."""
    stage.operate(CONFIGURATION)
    yield stage
    stage.operate({**CONFIGURATION, "network": {"autoMNNVLEnabled": True}})


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


def _claims(stage: Stage, name: str, count: int) -> dict[str, str]:
    """The template that each PodClique of a set claims, once so many are there; empty where there is no claim."""
    found: dict[str, str] = {}

    def check() -> bool:
        found.clear()
        found.update((each["metadata"]["name"], _claimed(each["spec"]["podSpec"])) for each in _cliques(stage, name))
        return len(found) == count

    stage.eventually(check, f"{count} PodCliques of {name}")
    return found


def _cliques(stage: Stage, name: str) -> list[dict[str, Any]]:
    return stage.part_of("PodClique", name)


def _claimed(spec: dict[str, Any]) -> str:
    """The claim of a pod specification; the container with GPUs has it, and no other one."""
    claims = [each["resourceClaimTemplateName"] for each in spec.get("resourceClaims") or []]
    given = [bool((each.get("resources") or {}).get("claims")) for each in spec["containers"]]
    assert given == ([True, False] if claims else [False] * len(given))
    return "".join(claims)


def _bare(name: str, **metadata: Any) -> dict[str, Any]:
    cliques = [clique("gpu", podSpec=gpu_pod("1")), clique("cpu")]
    return podcliqueset(name, cliques, metadata=metadata)


@pytest.mark.parametrize("metadata", [{}, in_group("none")], ids=["no group", "none"])
def test_b4_g1_without_a_group_there_is_neither_domain_nor_claim(stage: Stage, metadata: dict[str, Any]) -> None:
    stage.create(_bare("bare", **metadata)).ok(201)
    assert _claims(stage, "bare", 2) == {"bare-0-gpu": "", "bare-0-cpu": ""}
    assert _domains(stage, "bare") == []
    assert stage.get("PodCliqueSet", "bare")["metadata"].get("annotations", {}).get(GROUP, "none") == "none"
    _cleared(stage, "bare")


def test_b4_g1_a_clique_without_gpus_is_left_out_whatever_it_says(stage: Stage) -> None:
    cliques = [clique("gpu", podSpec=gpu_pod("1")), clique("cpu", **in_group("ring"))]
    stage.create(podcliqueset("mixed", cliques, metadata=in_group("ring"))).ok(201)
    assert _claims(stage, "mixed", 2) == {"mixed-0-gpu": "mixed-0-ring", "mixed-0-cpu": ""}
    stage.eventually(lambda: _domains(stage, "mixed") == ["mixed-0-ring"], "one domain")
    _cleared(stage, "mixed")


def test_b4_g1_a_group_is_a_name_and_stays(stage: Stage) -> None:
    refusal = stage.create(_bare("wrong", **in_group("no name at all")))
    assert refusal.status in (403, 422), refusal.message
    stage.create(_bare("kept", **in_group("ring"))).ok(201)
    changed = stage.patch("PodCliqueSet", "kept", {"metadata": in_group("other")})
    assert changed.status in (403, 422) and "immutable" in changed.message, changed.message
    _cleared(stage, "kept")


def _layers() -> dict[str, Any]:
    """Groups from the set, from scaling groups and from cliques; the nearest one counts, and `none` is one too."""

    def gpus(name: str, own: str = "") -> dict[str, Any]:
        return clique(name, podSpec=gpu_pod("1"), **(in_group(own) if own else {}))

    cliques = [
        *(gpus("s1"), gpus("s2", "train"), gpus("s3", "none")),
        *(gpus("a1"), gpus("a2", "infer"), gpus("a3", "none")),
        *(gpus("b1"), gpus("b2", "batch"), gpus("b3", "none")),
        *(gpus("c1"), gpus("c2", "solo"), gpus("c3", "none")),
    ]
    groups = [
        group("a", ["a1", "a2", "a3"]),
        group("b", ["b1", "b2", "b3"], **in_group("train")),
        group("c", ["c1", "c2", "c3"], **in_group("none")),
    ]
    return podcliqueset("layers", cliques, groups, metadata=in_group("main"))


def test_b4_g1_the_nearest_of_three_layers_counts_and_domains_follow_the_replicas(stage: Stage) -> None:
    names = ("batch", "infer", "main", "solo", "train")
    stage.create(_layers()).ok(201)
    assert _claims(stage, "layers", 12) == {
        "layers-0-s1": "layers-0-main",
        "layers-0-s2": "layers-0-train",
        "layers-0-s3": "",
        "layers-0-a-0-a1": "layers-0-main",
        "layers-0-a-0-a2": "layers-0-infer",
        "layers-0-a-0-a3": "",
        "layers-0-b-0-b1": "layers-0-train",
        "layers-0-b-0-b2": "layers-0-batch",
        "layers-0-b-0-b3": "",
        "layers-0-c-0-c1": "",
        "layers-0-c-0-c2": "layers-0-solo",
        "layers-0-c-0-c3": "",
    }

    def follow(replicas: int) -> None:
        wanted = [f"layers-{replica}-{name}" for replica in range(replicas) for name in names]
        stage.eventually(lambda: _domains(stage, "layers") == wanted, f"the domains of {replicas} replicas")

    follow(1)
    stage.delete("ComputeDomain", "layers-0-main")
    for replicas in (3, 2):
        stage.scale("PodCliqueSet", "layers", replicas)
        follow(replicas)
    owner = stage.get("PodCliqueSet", "layers")["metadata"]
    found = stage.get("ComputeDomain", "layers-0-main")
    assert [each["uid"] for each in found["metadata"]["ownerReferences"]] == [owner["uid"]]
    assert found["spec"] == {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "layers-0-main"}}}
    _cleared(stage, "layers")


def _cleared(stage: Stage, name: str) -> None:
    stage.delete("PodCliqueSet", name)
    stage.eventually(lambda: not _domains(stage, name) and not stage.exists("PodCliqueSet", name), f"{name} is gone")


def test_b4_g1_switched_off_a_group_is_refused_and_sets_without_one_go_on(switched_off: Stage) -> None:
    refusal = switched_off.create(_bare("asks", **in_group("ring")))
    assert refusal.status in (403, 422) and "autoMNNVLEnabled" in refusal.message, refusal.message
    switched_off.create(_bare("plain")).ok(201)
    assert _claims(switched_off, "plain", 2) == {"plain-0-gpu": "", "plain-0-cpu": ""}
    assert _domains(switched_off, "plain") == []
    _cleared(switched_off, "plain")
