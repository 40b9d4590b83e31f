"""From a set's constraints to its gangs and PodGroups: the worked example, and the rules one by one."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from spinney.api.changes import Create, Patch
from spinney.api.kinds.clustertopology import ClusterTopology, TopologyLevel
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.meta import ObjectMeta
from spinney.core.expansion import clustertopology, podgang
from spinney.core.expansion.backends.kai import Kai, podgroup_spec
from spinney.core.expansion.objects import PODGROUPS, to_builtins
from spinney.core.expansion.podcliqueset.set_layout import gangs_of, groups_of, member_of, standalone_members
from spinney.core.expansion.podcliqueset.topology_resolution import ResolvedTopology, resolve_topology
from spinney.core.expansion.settings import AutoPreferred, Settings
from spinney.core.topology_constraints import effective_topology

ZONE, BLOCK, RACK, HOST = (
    "topology.kubernetes.io/zone",
    "example.com/block",
    "example.com/rack",
    "kubernetes.io/hostname",
)
LEVELS = {"zone": ZONE, "block": BLOCK, "rack": RACK, "host": HOST}
Json = dict[str, Any]


def topology(levels: dict[str, str] = LEVELS, name: str = "grove-topology") -> ClusterTopology:
    spec = {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]}
    return msgspec.convert({"metadata": {"name": name, "uid": "t"}, "spec": spec}, ClusterTopology)


def podcliqueset(group_constraint: str = "block", set_constraint: str = "zone", **template: Any) -> PodCliqueSet:
    def clique(name: str, replicas: int, pack: str = "") -> Json:
        found: Json = {"name": name, "spec": {"replicas": replicas, "podSpec": {"containers": []}}}
        return found | ({"topologyConstraint": {"packDomain": pack}} if pack else {})

    group: Json = {"name": "prefill", "cliqueNames": ["pw", "pl"], "replicas": 3, "minAvailable": 1}
    if group_constraint:
        group["topologyConstraint"] = {"packDomain": group_constraint}
    body: Json = {
        "cliques": [clique("router", 1, "block"), clique("pl", 1, "host"), clique("pw", 4)],
        "podCliqueScalingGroups": [group],
        **template,
    }
    if set_constraint:
        body["topologyConstraint"] = {"packDomain": set_constraint}
    metadata = {"name": "d", "namespace": "default", "uid": "s"}
    return msgspec.convert({"metadata": metadata, "spec": {"replicas": 1, "template": body}}, PodCliqueSet)


def settings(auto: AutoPreferred = AutoPreferred.NEVER, enabled: bool = True) -> Settings:
    return Settings(topology_enabled=enabled, auto_preferred=auto, backends={"kai-scheduler": Kai()})


def gangs(
    whole: PodCliqueSet, auto: AutoPreferred = AutoPreferred.NEVER, levels: dict[str, str] = LEVELS
) -> dict[str, Json]:
    """The gangs of a set as they would be created, by name."""
    translation = resolve_topology(whole, topology(levels), "grove-topology", settings(auto))
    found = {}
    for gang in gangs_of(whole, 0, groups_of(whole, 0, lambda name, config: config.replicas)):
        spec = podgang.spec_of(whole, gang, translation, {}, {})
        found[gang.name] = podgang.create(whole, gang, spec, translation, Kai()).body  # type: ignore[union-attr]
    return found


def required(key: str) -> Json:
    return {"packConstraint": {"required": key}}


def test_g3_g5_the_base_gang_of_the_worked_example() -> None:
    base = gangs(podcliqueset())["d-0"]["spec"]
    assert base["topologyConstraint"] == required(ZONE)
    assert base["topologyConstraintGroupConfigs"] == [
        {
            "name": "d-0-prefill-0",
            "podGroupNames": ["d-0-prefill-0-pw", "d-0-prefill-0-pl"],
            "topologyConstraint": required(BLOCK),
        }
    ]
    assert base["podgroups"] == [
        {"name": "d-0-router", "podReferences": [], "minReplicas": 1, "topologyConstraint": required(BLOCK)},
        {"name": "d-0-prefill-0-pw", "podReferences": [], "minReplicas": 4},
        {"name": "d-0-prefill-0-pl", "podReferences": [], "minReplicas": 1, "topologyConstraint": required(HOST)},
    ]


def test_g4_scaled_gangs_have_the_constraint_of_their_group_and_no_groups() -> None:
    scaled = gangs(podcliqueset())["d-0-prefill-1"]["spec"]
    assert scaled["topologyConstraint"] == required(BLOCK)
    assert "topologyConstraintGroupConfigs" not in scaled
    assert [each["name"] for each in scaled["podgroups"]] == ["d-0-prefill-2-pw", "d-0-prefill-2-pl"]


def test_g4_a_group_without_constraint_gives_its_scaled_gangs_that_of_the_set() -> None:
    found = gangs(podcliqueset(group_constraint=""))
    assert "topologyConstraintGroupConfigs" not in found["d-0"]["spec"]
    assert found["d-0-prefill-0"]["spec"]["topologyConstraint"] == required(ZONE)


def test_g7_the_annotation_names_the_topology() -> None:
    found = gangs(podcliqueset())
    assert {each["metadata"]["annotations"]["grove.io/topology-name"] for each in found.values()} == {"grove-topology"}


def test_g7_a_gang_without_constraints_has_no_annotation() -> None:
    whole = podcliqueset(group_constraint="", set_constraint="")
    found = gangs(whole)
    assert "grove.io/topology-name" in found["d-0"]["metadata"]["annotations"]
    bare = msgspec.structs.replace(whole.spec.template, cliques=whole.spec.template.cliques[2:])
    without = msgspec.structs.replace(whole, spec=msgspec.structs.replace(whole.spec, template=bare))
    assert "annotations" not in gangs(without)["d-0-prefill-0"]["metadata"]


def test_g12_scaled_gangs_are_tied_to_the_domain_of_their_base_gang() -> None:
    found = gangs(podcliqueset())
    assert found["d-0-prefill-0"]["metadata"]["annotations"]["spinney.dev/tied-to"] == f"d-0,{ZONE}"
    assert "spinney.dev/tied-to" not in found["d-0"]["metadata"]["annotations"]
    free = gangs(podcliqueset(set_constraint=""))
    assert "spinney.dev/tied-to" not in free["d-0-prefill-0"]["metadata"]["annotations"]


def test_g12_the_base_gang_tells_which_scaled_gangs_its_set_asks_for() -> None:
    found = gangs(podcliqueset())
    (told,) = json.loads(found["d-0"]["metadata"]["annotations"]["spinney.dev/scaled-gangs"])
    assert told == {
        "name": "d-0-prefill",
        "count": 2,
        "level": ZONE,
        "required": BLOCK,
        "podGroups": ["d-0-prefill-0-pw", "d-0-prefill-0-pl"],
    }
    assert {f"{told['name']}-{number}" for number in range(told["count"])} == found.keys() - {"d-0"}
    assert "spinney.dev/scaled-gangs" not in found["d-0-prefill-0"]["metadata"]["annotations"]
    inherited = json.loads(
        gangs(podcliqueset(group_constraint=""))["d-0"]["metadata"]["annotations"]["spinney.dev/scaled-gangs"]
    )
    assert inherited[0]["required"] == ZONE
    assert "spinney.dev/scaled-gangs" not in gangs(podcliqueset(set_constraint=""))["d-0"]["metadata"]["annotations"]


def test_g12_what_the_base_gang_tells_is_passed_on_to_its_podgroup_and_taken_back() -> None:
    base = msgspec.convert(gangs(podcliqueset())["d-0"], PodGang)
    (made,) = Kai().sync_gang(base, lambda *_: None)
    assert isinstance(made, Create)
    text = base.metadata.annotations["spinney.dev/scaled-gangs"]
    assert made.body["metadata"]["annotations"]["spinney.dev/scaled-gangs"] == text
    kept = {key: value for key, value in base.metadata.annotations.items() if key != "spinney.dev/scaled-gangs"}
    smaller = msgspec.structs.replace(base, metadata=msgspec.structs.replace(base.metadata, annotations=kept))
    live = {**made.body, "metadata": {**made.body["metadata"], "uid": "p"}}
    (patched,) = Kai().sync_gang(smaller, lambda resource, *_: live if resource == PODGROUPS else None)
    assert isinstance(patched, Patch)
    assert patched.patch["metadata"]["annotations"] == {"spinney.dev/scaled-gangs": None}


def test_g6_constrained_writes_a_preferred_level_beside_every_broader_required_one() -> None:
    base = gangs(podcliqueset(), AutoPreferred.CONSTRAINED)["d-0"]["spec"]
    both = {"packConstraint": {"required": ZONE, "preferred": HOST}}
    assert base["topologyConstraint"] == both
    assert base["topologyConstraintGroupConfigs"][0]["topologyConstraint"]["packConstraint"]["preferred"] == HOST
    by_name = {each["name"]: each.get("topologyConstraint") for each in base["podgroups"]}
    assert by_name["d-0-prefill-0-pw"] is None
    assert by_name["d-0-prefill-0-pl"] == required(HOST)


def test_g6_preferred_is_never_below_the_host() -> None:
    levels = LEVELS | {"numa": "example.com/numa"}
    base = gangs(podcliqueset(), AutoPreferred.CONSTRAINED, levels)["d-0"]["spec"]
    assert base["topologyConstraint"]["packConstraint"]["preferred"] == HOST


def test_g6_always_packs_sets_without_any_constraint() -> None:
    whole = podcliqueset(group_constraint="", set_constraint="")
    cliques = tuple(msgspec.structs.replace(each, topology_constraint=None) for each in whole.spec.template.cliques)
    template = msgspec.structs.replace(whole.spec.template, cliques=cliques)
    bare = msgspec.structs.replace(whole, spec=msgspec.structs.replace(whole.spec, template=template))
    assert "topologyConstraint" not in gangs(bare, AutoPreferred.CONSTRAINED)["d-0"]["spec"]
    packed = gangs(bare, AutoPreferred.ALWAYS)["d-0"]
    assert packed["spec"]["topologyConstraint"] == {"packConstraint": {"preferred": HOST}}
    assert packed["spec"]["podgroups"][0]["topologyConstraint"] == {"packConstraint": {"preferred": HOST}}
    assert packed["metadata"]["annotations"]["grove.io/topology-name"] == "grove-topology"


def test_g6_a_preferred_level_of_the_user_wins() -> None:
    whole = podcliqueset(set_constraint="", topologyConstraint={"pack": {"required": "zone", "preferred": "rack"}})
    constraint = gangs(whole, AutoPreferred.CONSTRAINED)["d-0"]["spec"]["topologyConstraint"]
    assert constraint == {"packConstraint": {"required": ZONE, "preferred": RACK}}


def test_g9_a_level_that_vanished_is_stripped_and_the_rest_stays() -> None:
    left = {domain: key for domain, key in LEVELS.items() if domain != "block"}
    base = gangs(podcliqueset(), levels=left)["d-0"]["spec"]
    assert base["topologyConstraint"] == required(ZONE)
    assert "topologyConstraintGroupConfigs" not in base
    by_name = {each["name"]: each.get("topologyConstraint") for each in base["podgroups"]}
    assert by_name["d-0-router"] is None
    assert by_name["d-0-prefill-0-pl"] == required(HOST)


FINDINGS = {
    "all there": (topology(), True, ("False", "AllClusterTopologyLevelsAvailable")),
    "topology gone": (None, True, ("Unknown", "ClusterTopologyNotFound")),
    "levels gone": (topology({"zone": ZONE, "host": HOST}), True, ("True", "ClusterTopologyLevelsUnavailable")),
    "switched off": (topology(), False, ("Unknown", "TopologyAwareSchedulingDisabled")),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_s1_the_condition_says_whether_the_constraints_can_be_kept(case: str) -> None:
    found, enabled, expected = FINDINGS[case]
    finding = resolve_topology(podcliqueset(), found, "grove-topology", settings(enabled=enabled)).finding
    assert finding is not None
    assert (finding.status, finding.reason) == expected


def test_s1_the_message_lists_the_domains_that_are_gone() -> None:
    finding = resolve_topology(podcliqueset(), topology({"zone": ZONE, "rack": RACK}), "x", settings()).finding
    assert finding is not None
    assert finding.message == "Unavailable topology domains: [block host]"


def test_s1_a_set_without_constraints_has_no_condition() -> None:
    whole = podcliqueset(group_constraint="", set_constraint="")
    cliques = tuple(msgspec.structs.replace(each, topology_constraint=None) for each in whole.spec.template.cliques)
    template = msgspec.structs.replace(whole.spec.template, cliques=cliques)
    bare = msgspec.structs.replace(whole, spec=msgspec.structs.replace(whole.spec, template=template))
    for enabled in (True, False):
        assert resolve_topology(bare, None, "x", settings(enabled=enabled)).finding is None


def test_g8_the_topology_that_counts() -> None:
    assert effective_topology(podcliqueset(), "grove-topology", scheduled=False) == "grove-topology"
    named = podcliqueset(clusterTopologyName="gb200")
    assert effective_topology(named, "grove-topology", scheduled=True) == "gb200"
    newer = podcliqueset(set_constraint="", topologyConstraint={"topologyName": "h100", "pack": {"required": "zone"}})
    assert effective_topology(newer, "grove-topology", scheduled=False) == "h100"


def test_p8_a_set_without_a_name_keeps_the_topology_of_its_label_while_it_is_scheduled() -> None:
    labels = {"grove.io/topology-name": "older"}
    whole = msgspec.structs.replace(podcliqueset(), metadata=ObjectMeta(name="d", labels=labels))
    assert effective_topology(whole, "grove-topology", scheduled=True) == "older"
    assert effective_topology(whole, "grove-topology", scheduled=False) == "grove-topology"


@pytest.mark.parametrize("scheduled", [False, True])
def test_l2_p8_the_label_keeps_a_topology_from_deletion_only_while_a_pod_is_scheduled(scheduled: bool) -> None:
    labels = {"grove.io/topology-name": "older"}
    whole = msgspec.structs.replace(podcliqueset(), metadata=ObjectMeta(name="d", namespace="x", labels=labels))
    observed = clustertopology.Observed([whole], lambda each: scheduled, [], lambda *key: None, settings(), 0.0)
    assert clustertopology.users("older", observed) == (["x/d"] if scheduled else [])
    assert clustertopology.users("grove-topology", observed) == ([] if scheduled else ["x/d"])


def test_t6_members_under_a_constraint_run_on_nodes_with_all_keys_but_numa() -> None:
    whole = podcliqueset(set_constraint="", group_constraint="")
    translation = resolve_topology(whole, topology(LEVELS | {"numa": "example.com/numa"}), "x", settings())
    (router,) = standalone_members(whole, 0)
    assert translation.node_keys(whole, router) == (ZONE, BLOCK, RACK, HOST)
    members = {
        each.template.name: each
        for gang in gangs_of(whole, 0, groups_of(whole, 0, lambda n, c: 1))
        for each in gang.members
    }
    assert translation.node_keys(whole, members["pw"]) == ()
    assert ResolvedTopology().node_keys(whole, router) == ()


def test_g11_the_podgroup_of_the_worked_example() -> None:
    body = gangs(podcliqueset())["d-0"]
    gang = msgspec.convert(body, PodGang)
    labelled = msgspec.structs.replace(gang.metadata, labels={"kai.scheduler/queue": "test"})
    found = to_builtins(podgroup_spec(msgspec.structs.replace(gang, metadata=labelled)))

    def constraint(key: str) -> Json:
        return {"topology": "grove-topology", "requiredTopologyLevel": key}

    assert found == {
        "minMember": 6,
        "queue": "test",
        "topologyConstraint": constraint(ZONE),
        "subGroups": [
            {"name": "d-0-prefill-0", "minSubGroup": 2, "topologyConstraint": constraint(BLOCK)},
            {"name": "d-0-router", "minMember": 1, "topologyConstraint": constraint(BLOCK)},
            {"name": "d-0-prefill-0-pw", "minMember": 4, "parent": "d-0-prefill-0"},
            {
                "name": "d-0-prefill-0-pl",
                "minMember": 1,
                "parent": "d-0-prefill-0",
                "topologyConstraint": constraint(HOST),
            },
        ],
    }


def test_g11_a_scaled_gang_is_a_podgroup_of_two_root_subgroups() -> None:
    gang = msgspec.convert(gangs(podcliqueset())["d-0-prefill-0"], PodGang)
    found = podgroup_spec(gang)
    assert found.min_member == 5
    assert [(each.name, each.parent) for each in found.sub_groups] == [
        ("d-0-prefill-1-pw", None),
        ("d-0-prefill-1-pl", None),
    ]
    assert found.queue == "default-queue"


def test_t1_levels_are_taken_broad_to_narrow_however_they_are_stored() -> None:
    shuffled = topology({"host": HOST, "zone": ZONE})
    translation = resolve_topology(podcliqueset(), shuffled, "x", settings(AutoPreferred.CONSTRAINED))
    assert translation.levels == (TopologyLevel("zone", ZONE), TopologyLevel("host", HOST))


def test_member_of_finds_the_template_by_labels_and_exact_name() -> None:
    labels = {
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podcliquescalinggroup": "d-0-prefill",
        "grove.io/podcliquescalinggroup-replica-index": "1",
    }
    body = {"metadata": {"name": "d-0-prefill-1-pw", "labels": labels}, "spec": {"podSpec": {}}}
    found = member_of(podcliqueset(), msgspec.convert(body, PodClique))
    assert found is not None
    assert (found.template.name, found.gang, found.base_gang) == ("pw", "d-0-prefill-0", "d-0")
