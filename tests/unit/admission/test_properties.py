"""INV9: admission is a function. Deterministic, idempotent, free of side effects, and with an answer to everything."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from spinney.api.domains import DOMAINS
from spinney.core.admission.operator_admission import OperatorAdmission
from unit.admission.admission_kit import OFF, ON, Json, clique, group, pack, pcs, podclique, request, topology, view

WORDS = st.sampled_from(["w", "x", "g", "", "A b", "p", "grove-topology", "h100", "kai-scheduler", "none"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 5), st.floats(allow_nan=False), WORDS, st.text(max_size=5)
)
FIELD_NAMES = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "deletionTimestamp",
    "spec",
    "template",
    "replicas",
    "cliques",
    "podCliqueScalingGroups",
    "cliqueNames",
    "minAvailable",
    "startsAfter",
    "podSpec",
    "containers",
    "env",
    "schedulerName",
    "autoScalingConfig",
    "scaleConfig",
    "minReplicas",
    "maxReplicas",
    "topologyConstraint",
    "packDomain",
    "pack",
    "required",
    "preferred",
    "topologyName",
    "clusterTopologyName",
    "terminationDelay",
    "resourceSharing",
    "resourceClaimTemplates",
    "templateSpec",
    "filter",
    "childCliqueNames",
    "scope",
    "levels",
    "domain",
    "key",
    "cliqueStartupType",
    "updateStrategy",
    "replicaSpreadConstraints",
    "roleName",
    "nodeName",
]
FIELDS = st.sampled_from(FIELD_NAMES)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=5)),
    max_leaves=25,
)
DOMAIN = st.sampled_from(DOMAINS)
CONSTRAINT = st.one_of(
    st.none(),
    st.builds(pack, DOMAIN),
    st.fixed_dictionaries({"pack": st.fixed_dictionaries({}, optional={"required": DOMAIN, "preferred": DOMAIN})}),
    st.fixed_dictionaries({"topologyName": st.sampled_from(["h100", "gb200"]), "packDomain": DOMAIN}),
)


@st.composite
def workloads(draw: st.DrawFn) -> Json:
    names = draw(st.lists(st.sampled_from(["a", "b", "c", "g-0-a"]), min_size=1, max_size=4))
    cliques = [
        clique(
            name,
            draw(CONSTRAINT),
            **draw(  # type: ignore[arg-type]
                st.fixed_dictionaries(
                    {"replicas": st.integers(0, 4)},
                    optional={
                        "minAvailable": st.integers(0, 5),
                        "startsAfter": st.lists(st.sampled_from(names), max_size=3),
                        "autoScalingConfig": st.just({"maxReplicas": 3}),
                    },
                )
            ),
        )
        for name in names
    ]
    members = draw(st.lists(st.sampled_from([*names, "z"]), max_size=3))
    groups = (group("g", *members, constraint=draw(CONSTRAINT)),) if members else ()
    more = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "clusterTopologyName": st.sampled_from(["h100", "gb200", "nowhere"]),
                "cliqueStartupType": st.sampled_from(["CliqueStartupTypeExplicit", "CliqueStartupTypeInOrder"]),
                "terminationDelay": st.sampled_from(["1h", "0s", "x"]),
            },
        )
    )
    return pcs(*cliques, constraint=draw(CONSTRAINT), groups=groups, **more)  # type: ignore[arg-type]


def cluster() -> Any:
    found = view(topology(*DOMAINS), topology("zone", "host", name="h100"), topology("rack", "host", name="gb200"))
    return found.add("podcliques", podclique("p", 1))


def step(obj: Any, old: Any, kind: str, configured: Any) -> tuple[Any, Any]:
    rules, seen, asked = OperatorAdmission(configured), cluster(), request(obj, old, kind=kind)
    changed = rules.mutate(asked, seen).object
    after = obj if changed is None else changed
    return after, rules.validate(replace(asked, object=after), seen)


def same(obj: Any) -> bytes:
    return msgspec.json.encode(obj)


@settings(max_examples=100, deadline=None)
@given(workloads(), st.one_of(st.none(), workloads()), st.sampled_from([ON, OFF]))
def test_inv9_admission_is_deterministic_idempotent_and_without_side_effects(
    workload: Json, old: Json | None, configured: Any
) -> None:
    before, old_before, seen_before = same(workload), same(old), same(list(cluster().objects.values()))
    first, verdict = step(workload, old, "PodCliqueSet", configured)
    again, same_verdict = step(copy.deepcopy(workload), old, "PodCliqueSet", configured)
    assert (same(first), verdict) == (same(again), same_verdict)
    twice, verdict_of_twice = step(first, old, "PodCliqueSet", configured)
    assert same(twice) == same(first)
    assert verdict_of_twice == verdict
    assert (same(workload), same(old)) == (before, old_before)
    assert same(list(cluster().objects.values())) == seen_before


@settings(max_examples=50, deadline=None)
@given(workloads())
def test_inv9_what_is_admitted_may_be_written_again(workload: Json) -> None:
    made, verdict = step(workload, None, "PodCliqueSet", ON)
    if verdict.allowed:
        assert step(made, made, "PodCliqueSet", ON)[1].allowed


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(DOMAINS), unique=True, max_size=7))
def test_t4_any_order_of_levels_becomes_the_same_topology(domains: list[str]) -> None:
    made, verdict = step(topology(*domains, name="x"), None, "ClusterTopology", ON)
    assert [level["domain"] for level in made["spec"]["levels"]] == sorted(domains, key=DOMAINS.index)
    assert verdict.allowed


@settings(max_examples=150, deadline=None)
@given(ANYTHING, ANYTHING, st.sampled_from(["PodCliqueSet", "ClusterTopology"]), st.sampled_from([ON, OFF]))
def test_inv9_every_json_has_an_answer(obj: Any, old: Any, kind: str, configured: Any) -> None:
    _, verdict = step(obj, old, kind, configured)
    assert all(str(error) for error in verdict.errors)


@st.composite
def bent(draw: st.DrawFn) -> Json:
    """A workload with one part of it, anywhere, replaced by anything."""
    workload = draw(workloads())
    here: Any = workload
    for _ in range(draw(st.integers(1, 7))):
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if not isinstance(here[key], dict | list) or draw(st.booleans()):
            here[key] = draw(ANYTHING)
            break
        here = here[key]
    return workload


@settings(max_examples=150, deadline=None)
@given(bent(), st.one_of(st.none(), bent()), st.sampled_from([ON, OFF]))
def test_inv9_a_bent_workload_has_an_answer(workload: Any, old: Any, configured: Any) -> None:
    _, verdict = step(workload, old, "PodCliqueSet", configured)
    assert all(str(error) for error in verdict.errors)


@pytest.mark.parametrize("depth", [100, 400, 900])
def test_deep_objects_are_answered(depth: int) -> None:
    deep: Any = {}
    for _ in range(depth):
        deep = {"a": deep}
    workload = pcs(clique(pod={"affinity": deep}))
    step(workload, copy_of(workload), "PodCliqueSet", ON)


def copy_of(obj: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(obj))
