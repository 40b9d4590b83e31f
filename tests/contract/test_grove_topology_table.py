"""What Grove's end-to-end tests ask of topology aware scheduling (TAS1 to TAS23), by the whole stack on both servers.

Each row applies a set and looks where its pods are and what its PodGroups say. `autoPreferred: Never` gives the
PodGroups that upstream writes; with the default a preferred level is generated beside each required one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from functools import partial

import pytest

from cluster_kit.real_programs import programs_of
from cluster_kit.server import eventually
from cluster_kit.servers import SERVERS
from contract.grove_rows import (
    LEVELS,
    NODES,
    ROWS,
    TOO_LARGE,
    TOPOLOGY,
    Group,
    Json,
    Part,
    Row,
    packed,
    workers,
)
from contract.operator_stages import HOST, RACK, ZONE, configured
from spinney.core.scheduling.settings import Settings
from spinney.drive.operator.startup import StartupFailed
from stack_kit.stage import DEADLINE_S, Stage, is_ready, stage_on
from unit.operator.operator_world import condition, podcliqueset

PATIENCE = Settings(incomplete_grace_s=0.2, usage_stable_s=1.0)
AWARE = {"enabled": True, "autoPreferred": "Never"}
"""Enabled, and no levels: the topology is made by an administrator, as upstream has it since alpha.10."""
CONFIGURATION = {**configured(), "topologyAwareScheduling": AWARE}
UNPROTECTED = {**configured(), "topologyAwareScheduling": {**AWARE, "protectUsed": False}}
MARK = "tests.example.com/mark"
UNAVAILABLE = "TopologyLevelsUnavailable"
AVAILABLE = ("False", "AllClusterTopologyLevelsAvailable")


def binding(name: str, levels: Mapping[str, str], **references: str) -> Json:
    """A ClusterTopologyBinding; `references`: the topology object by scheduler, `_` for `-`."""
    spec: Json = {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]}
    if references:
        spec["schedulerTopologyBindings"] = [
            {"schedulerName": scheduler.replace("_", "-"), "topologyReference": reference}
            for scheduler, reference in references.items()
        ]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture(scope="module", params=SERVERS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Thirty nodes, operator and scheduler at work, and a topology that an administrator made."""
    directory = tmp_path_factory.mktemp("grove-topology")
    with stage_on(programs_of(request.param), directory, NODES, PATIENCE) as found:
        found.operate(CONFIGURATION)
        found.create(binding(TOPOLOGY, LEVELS)).ok(201)
        yield found


@pytest.fixture
def row(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Row]:
    """A row with its set made, on the nodes that it may use; afterwards nothing is left of it."""
    found = ROWS[request.param]
    closed = sorted(each["metadata"]["name"] for each in stage.find("Node"))[found.nodes :]
    _cordon(stage, closed, True)
    stage.create(found.made).ok(201)
    yield found
    cleared(stage, found.name)
    _cordon(stage, closed, False)


def _cordon(stage: Stage, nodes: list[str], closed: bool) -> None:
    for name in nodes:
        stage.patch("Node", name, {"spec": {"unschedulable": closed}}).ok(200)
    nodes_are_seen(stage)


def nodes_are_seen(stage: Stage) -> None:
    """The scheduler has read every change of nodes until now: it binds a pod by a label that was given last.

    Nodes come by one watch, in order. Without this a set that is made at once may be placed by the labels of before.
    """
    mark = {MARK: secrets.token_hex(4)}
    first = min(node["metadata"]["name"] for node in stage.find("Node"))
    stage.patch("Node", first, {"metadata": {"labels": mark}}).ok(200)
    name = f"probe-{mark[MARK]}"
    anywhere = [{"operator": "Exists"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "kai-scheduler",
            "nodeSelector": mark,
            "tolerations": anywhere,
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    stage.create(pod).ok(201)

    def bound() -> bool:
        assert stage.get("Pod", name)["spec"].get("nodeName") == first
        return True

    stage.eventually(bound, "the scheduler has seen the nodes")
    stage.delete("Pod", name)


def cleared(stage: Stage, name: str) -> None:
    """The set goes, and everything that it had made with it."""
    stage.delete("PodCliqueSet", name)

    def gone() -> bool:
        left = [kind for kind in ("Pod", "PodGang", "PodGroup") if stage.part_of(kind, name)]
        assert (left, stage.exists("PodCliqueSet", name)) == ([], False)
        return True

    stage.eventually(gone, f"nothing is left of {name}")


def ready(stage: Stage, name: str, count: int, deadline_s: float = DEADLINE_S) -> list[Json]:
    """The pods of a set once so many of them are ready, and no others are there."""

    pods: list[Json] = []

    def check() -> bool:
        pods[:] = stage.part_of("Pod", name)
        assert sorted(map(is_ready, pods)) == [True] * count
        return True

    eventually(check, f"{count} ready pods of {name}", deadline_s)
    return pods


def labels_of(stage: Stage) -> dict[str, Mapping[str, str]]:
    return {each["metadata"]["name"]: each["metadata"]["labels"] for each in stage.find("Node")}


def domains(stage: Stage, pods: list[Json], level: str) -> set[str]:
    labels = labels_of(stage)
    return {labels[pod["spec"]["nodeName"]][level] for pod in pods}


def with_labels(pods: list[Json], labels: Mapping[str, str]) -> list[Json]:
    return [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]


def group_of(podgroup: Json) -> Group:
    """A PodGroup as a row has it."""
    parts = {each["name"]: _part(each) for each in podgroup["spec"].get("subGroups", [])}
    return Group(parts, *_levels(podgroup["spec"]))


def _part(sub_group: Json) -> Part:
    minimum = sub_group.get("minMember") or sub_group["minSubGroup"]
    return Part(minimum, *_levels(sub_group), sub_group.get("parent", ""))


def _levels(asked: Json) -> tuple[str, str]:
    found = asked.get("topologyConstraint") or {}
    assert found.get("topology", TOPOLOGY) == TOPOLOGY
    return found.get("requiredTopologyLevel", ""), found.get("preferredTopologyLevel", "")


def test_c5_tas1_a_binding_that_an_administrator_makes_becomes_a_topology_of_the_scheduler(stage: Stage) -> None:
    def made() -> bool:
        twin = stage.get("Topology", TOPOLOGY)
        assert [each["nodeLabel"] for each in twin["spec"]["levels"]] == list(LEVELS.values())
        assert [owner["kind"] for owner in twin["metadata"]["ownerReferences"]] == ["ClusterTopologyBinding"]
        return True

    stage.eventually(made, "the scheduler's topology is there")
    assert all(set(LEVELS.values()) <= set(labels) for labels in labels_of(stage).values())


@pytest.mark.parametrize("row", ROWS, indirect=True)
def test_b4_the_pods_of_a_set_are_where_its_constraints_want_them(stage: Stage, row: Row) -> None:
    pods = ready(stage, row.name, row.pods)
    for wanted in row.together:
        chosen = with_labels(pods, wanted.labels)
        assert len(chosen) == wanted.pods, wanted
        assert len(domains(stage, chosen, wanted.level)) == 1, wanted
    assert {each["metadata"]["name"]: group_of(each) for each in stage.part_of("PodGroup", row.name)} == row.groups
    found = stage.available(row.name, row.made["spec"]["replicas"])
    told = AVAILABLE if "topologyConstraint" in str(row.made) else ("", "")
    assert condition(found, UNAVAILABLE) == told


def test_b4_tas13_a_gang_that_no_rack_holds_waits_whole_and_every_pod_says_why(stage: Stage) -> None:
    name = TOO_LARGE["metadata"]["name"]
    stage.create(TOO_LARGE).ok(201)

    def told() -> bool:
        pods = stage.part_of("Pod", name)
        assert len(pods) == 10 and not any(pod["spec"].get("nodeName") for pod in pods)
        for pod in pods:
            assert condition(pod, "PodScheduled") == ("False", "Unschedulable")
            assert "Unschedulable" in [reason for reason, _ in stage.events("Pod", pod["metadata"]["name"])]
        return True

    stage.eventually(told, "every pod says that it cannot be scheduled")
    assert group_of(stage.get("PodGroup", f"{name}-0")) == Group({f"{name}-0-worker": Part(10)}, RACK)
    cleared(stage, name)


NVL_BLOCK, NVL_DOMAIN = "example.com/nvl-block", "example.com/nvlink-domain"


@pytest.fixture
def halves(stage: Stage) -> Iterator[dict[str, list[str]]]:
    """The second of two blocks gets labels of other hardware in place of its racks, and has its own back at the end."""
    every = sorted(stage.find("Node"), key=lambda node: node["metadata"]["name"])
    nodes, names = every[:28], [node["metadata"]["name"] for node in every]
    _cordon(stage, names[28:], True)
    for index, node in enumerate(nodes[14:]):
        other = {RACK: None, NVL_BLOCK: f"nvl-{index // 7}", NVL_DOMAIN: f"domain-{index}"}
        stage.patch("Node", node["metadata"]["name"], {"metadata": {"labels": other}}).ok(200)
    nodes_are_seen(stage)
    yield {"hopper": names[:14], "blackwell": names[14:28]}
    _cordon(stage, names[28:], False)
    for node in nodes[14:]:
        own = {RACK: node["metadata"]["labels"][RACK], NVL_BLOCK: None, NVL_DOMAIN: None}
        stage.patch("Node", node["metadata"]["name"], {"metadata": {"labels": own}}).ok(200)
    nodes_are_seen(stage)


def test_b4_t5_t6_tas17_a_block_means_other_labels_on_other_hardware(
    stage: Stage, halves: dict[str, list[str]]
) -> None:
    hardware = {
        "hopper": {"block": RACK, "host": HOST},
        "blackwell": {"block": NVL_BLOCK, "rack": NVL_DOMAIN, "host": HOST},
    }
    for name, levels in hardware.items():
        stage.create(binding(name, levels)).ok(201)
        packing: Json = {"topologyConstraint": {"topologyName": name, "pack": {"required": "block"}}}
        stage.create(podcliqueset(f"on-{name}", [workers("worker", 2, 10)], **packing)).ok(201)
    for name, levels in hardware.items():
        pods = ready(stage, f"on-{name}", 2)
        assert len(domains(stage, pods, levels["block"])) == 1
        assert {pod["spec"]["nodeName"] for pod in pods} <= set(halves[name])
        twin = stage.get("Topology", name)
        assert [each["nodeLabel"] for each in twin["spec"]["levels"]] == list(levels.values())
    for name in hardware:
        cleared(stage, f"on-{name}")
        stage.delete("ClusterTopologyBinding", name)


DRIFT = "SchedulerTopologyDrift"


def test_t8_tas18_a_binding_to_a_topology_that_is_not_there_has_drifted(stage: Stage) -> None:
    levels = {"zone": ZONE, "rack": RACK, "host": HOST}
    stage.create(binding("elsewhere", levels, kai_scheduler="not-there")).ok(201)

    def drifted() -> bool:
        found = stage.get("ClusterTopologyBinding", "elsewhere")
        assert condition(found, DRIFT) == ("True", "Drift")
        (status,) = found["status"]["schedulerTopologyStatuses"]
        assert (status["topologyReference"], status.get("inSync", False)) == ("not-there", False)
        return True

    stage.eventually(drifted, "the drift is told")
    stage.delete("ClusterTopologyBinding", "elsewhere")


def test_t8_l5_tas19_the_topology_of_the_scheduler_follows_the_levels_of_its_binding(stage: Stage) -> None:
    def followed(*keys: str) -> None:
        def check() -> bool:
            twin = stage.get("Topology", "growing")
            assert [each["nodeLabel"] for each in twin["spec"]["levels"]] == list(keys)
            found = stage.get("ClusterTopologyBinding", "growing")
            assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
            assert condition(found, DRIFT) == ("False", "InSync")
            return True

        stage.eventually(check, f"a topology of {keys}")

    stage.create(binding("growing", {"zone": ZONE, "host": HOST})).ok(201)
    followed(ZONE, HOST)
    more = binding("growing", {"zone": ZONE, "rack": RACK, "host": HOST})["spec"]
    stage.patch("ClusterTopologyBinding", "growing", {"spec": more}).ok(200)
    followed(ZONE, RACK, HOST)
    stage.delete("ClusterTopologyBinding", "growing")


@pytest.fixture(params=[True, False], ids=["protected", "as upstream"])
def is_protected(request: pytest.FixtureRequest, stage: Stage) -> Iterator[bool]:
    """Whether topologies that sets use are kept from being deleted."""
    if not request.param:
        stage.operate(UNPROTECTED)
    yield request.param
    if not request.param:
        stage.operate(CONFIGURATION)


def test_b4_l2_s1_tas20_a_set_goes_on_without_its_topology_and_has_it_back(stage: Stage, is_protected: bool) -> None:
    """Upstream deletes a topology that is in use at once. Here it waits, until its finalizer is taken away by hand."""
    levels = {"zone": ZONE, "rack": RACK, "host": HOST}
    stage.create(binding("passing", levels)).ok(201)
    packing: Json = {"topologyConstraint": {"topologyName": "passing", "pack": {"required": "rack"}}}
    stage.create(podcliqueset("quiet", [workers("worker", 2, 10)], replicas=0, **packing)).ok(201)
    _is_told(stage, "quiet", AVAILABLE)
    stage.delete("ClusterTopologyBinding", "passing")
    if is_protected:
        stage.eventually(
            lambda: "DeletionBlocked" in [reason for reason, _ in stage.events("ClusterTopologyBinding", "passing")],
            "the deletion waits for the set",
        )
        stage.patch("ClusterTopologyBinding", "passing", {"metadata": {"finalizers": None}}).ok(200)
    _is_told(stage, "quiet", ("Unknown", "ClusterTopologyNotFound"))
    stage.scale("PodCliqueSet", "quiet", 1)
    ready(stage, "quiet", 2)
    for kind, name in (("PodGang", "quiet-0"), ("PodClique", "quiet-0-worker")):
        assert "grove.io/topology-name" not in (stage.get(kind, name)["metadata"].get("annotations") or {})
    assert group_of(stage.get("PodGroup", "quiet-0")) == Group({"quiet-0-worker": Part(2)})
    stage.scale("PodCliqueSet", "quiet", 0)
    ready(stage, "quiet", 0)
    stage.create(binding("passing", levels)).ok(201)
    _is_told(stage, "quiet", AVAILABLE)
    cleared(stage, "quiet")
    stage.delete("ClusterTopologyBinding", "passing")


def _is_told(stage: Stage, name: str, told: tuple[str, str]) -> None:
    def check() -> bool:
        assert condition(stage.get("PodCliqueSet", name), UNAVAILABLE) == told
        return True

    stage.eventually(check, f"{name} says {told}")


ZONE_TWICE = binding("refused", {"zone": ZONE})
ZONE_TWICE["spec"]["levels"].append({"domain": "zone", "key": RACK})
KAI_TWICE = binding("refused", LEVELS)
KAI_TWICE["spec"]["schedulerTopologyBindings"] = [
    {"schedulerName": "kai-scheduler", "topologyReference": each} for each in ("a", "b")
]
REFUSED_BINDINGS: dict[str, tuple[Json, tuple[str, ...]]] = {
    "a domain twice": (ZONE_TWICE, ("spec.levels[1].domain", "Duplicate value")),
    "a scheduler twice": (KAI_TWICE, ("[1].schedulerName", "Duplicate value")),
    "an unknown scheduler": (
        binding("refused", LEVELS, unknown_scheduler="x"),
        ("[0].schedulerName", "scheduler backend is not enabled in Grove"),
    ),
    "a scheduler without topologies": (
        binding("refused", LEVELS, default_scheduler="x"),
        ("[0].schedulerName", "scheduler backend does not implement topology-aware scheduling"),
    ),
}


@pytest.mark.parametrize("case", REFUSED_BINDINGS)
def test_b4_t8_tas21_bindings_are_refused_as_upstream_does(stage: Stage, case: str) -> None:
    made, fragments = REFUSED_BINDINGS[case]
    refusal = stage.create(made)
    assert refusal.status in (403, 422)
    assert all(fragment in refusal.message for fragment in fragments), refusal.message


def test_b4_p10_tas21_a_clique_may_leave_the_name_of_the_topology_to_its_set(stage: Stage) -> None:
    inner: Json = {"topologyConstraint": {"pack": {"required": "host"}}}
    made = podcliqueset("inherits", [workers("worker", 1, 10, **inner)], **packed("zone"))
    stage.create(made).ok(201)
    cleared(stage, "inherits")


def _shaped(constraint: Json) -> Json:
    return podcliqueset("shaped", [workers("worker", 1, 10)], replicas=0, topologyConstraint=constraint)


REFUSED_SHAPES: dict[str, tuple[Json, str]] = {
    "no pack": ({"topologyName": TOPOLOGY}, "topologyConstraint must specify pack or deprecated packDomain"),
    "an empty pack": (
        {"topologyName": TOPOLOGY, "pack": {}},
        "pack must specify at least one of required or preferred",
    ),
    "both spellings": (
        {"topologyName": TOPOLOGY, "packDomain": "host", "pack": {"required": "host"}},
        "must not set both pack.required and deprecated packDomain",
    ),
}


@pytest.mark.parametrize("case", REFUSED_SHAPES)
def test_b4_p10_tas22_constraints_of_no_meaning_are_refused_as_upstream_does(stage: Stage, case: str) -> None:
    constraint, fragment = REFUSED_SHAPES[case]
    refusal = stage.create(_shaped(constraint))
    assert refusal.status in (403, 422)
    assert fragment in refusal.message, refusal.message


@pytest.mark.parametrize("constraint", [{"pack": {"preferred": "host"}}, {"packDomain": "host"}])
def test_b4_p10_tas22_a_preference_alone_is_admitted_and_so_is_the_older_spelling(
    stage: Stage, constraint: Json
) -> None:
    """Upstream refuses `packDomain` on new sets since May 2026; manifests from before then go on to work here."""
    stage.create(_shaped({"topologyName": TOPOLOGY, **constraint})).ok(201)
    cleared(stage, "shaped")


def test_b4_a_set_that_does_not_say_how_often_has_no_replica_as_upstream_decides(stage: Stage) -> None:
    made = podcliqueset("unsaid", [workers("worker", 1, 10)])
    del made["spec"]["replicas"]
    assert stage.create(made).ok(201)["spec"]["replicas"] == 0
    stage.available("unsaid", 0)
    assert stage.part_of("Pod", "unsaid") == []
    cleared(stage, "unsaid")


STEPS: dict[str, tuple[int, ...]] = {
    "from zero": (0, 5),
    "to zero": (5, 0),
    "up and down again and again": (3, 6, 3, 6, 3),
}


@pytest.mark.parametrize("case", STEPS)
def test_b4_g1_a_set_that_is_scaled_has_exactly_what_its_replicas_need(stage: Stage, case: str) -> None:
    first, *others = STEPS[case]
    stage.create(podcliqueset("steps", [workers("expert", 2, 1)], replicas=first)).ok(201)
    ready(stage, "steps", 2 * first)
    for replicas in others:
        stage.scale("PodCliqueSet", "steps", replicas)
        ready(stage, "steps", 2 * replicas)
        stage.eventually(partial(_is_exact, stage, "steps", replicas), f"{replicas} replicas, told")
    cleared(stage, "steps")


def _is_exact(stage: Stage, name: str, replicas: int) -> bool:
    """No object of a replica that is not there, none that is going, and a status that counts what there is."""
    expected = {"Pod": 2 * replicas, "PodClique": replicas, "PodGang": replicas, "PodGroup": replicas}
    found = {kind: stage.part_of(kind, name) for kind in expected}
    assert {kind: len(objects) for kind, objects in found.items()} == expected
    assert not [each for objects in found.values() for each in objects if "deletionTimestamp" in each["metadata"]]
    whole = stage.get("PodCliqueSet", name)
    assert [whole["status"].get(key, 0) for key in COUNTERS] == [replicas] * len(COUNTERS)
    for each in (whole, *found["PodClique"]):
        assert each["status"]["observedGeneration"] == each["metadata"]["generation"]
        assert not each["status"].get("lastErrors")
    for each in found["PodClique"]:
        assert (each["status"]["readyReplicas"], each["status"]["updatedReplicas"]) == (2, 2)
    return True


COUNTERS = ("replicas", "availableReplicas", "updatedReplicas")


def test_b4_g1_nvlink_groups_without_their_kind_end_the_operator_at_its_start(stage: Stage) -> None:
    with pytest.raises(StartupFailed, match=r"computedomains\.resource\.nvidia\.com is not served"):
        stage.operate({**CONFIGURATION, "network": {"autoMNNVLEnabled": True}})
    stage.operate(CONFIGURATION)
