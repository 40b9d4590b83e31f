"""May a DynamoGraphDeployment enter? Every rule with its text, at the path that the user wrote."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from spinney.api.dynamo_conversion import to_alpha
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from unit.dynamo.dynamo_kit import LEVELS, Json, View, component, deployment, errors, packed, request

RULES = DynamoAdmission(DynamoAdmissionSettings())


@pytest.mark.parametrize("place", ["deployment", "component", "both", "nowhere"])
def test_d1_topology_is_optional_at_each_place(place: str) -> None:
    worker = component("w", topologyConstraint=packed("rack")) if place in ("component", "both") else component("w")
    spec = {"topologyConstraint": packed("zone")} if place in ("deployment", "both") else {}
    assert errors(deployment("d", worker, **spec)) == []


def test_d3_a_component_broader_than_the_deployment_is_refused() -> None:
    found = errors(
        deployment("d", component("w", topologyConstraint=packed("zone")), topologyConstraint=packed("rack"))
    )
    assert found == [
        'spec.components[0].topologyConstraint.packDomain: Invalid value: "zone": '
        'must be equal to or narrower than the deployment-level domain "rack"'
    ]


@pytest.mark.parametrize("domain", ["block", "rack", "host"])
def test_d3_an_equal_or_narrower_component_is_admitted(domain: str) -> None:
    narrow = component("w", topologyConstraint=packed(domain))
    assert errors(deployment("d", narrow, topologyConstraint=packed("block"))) == []


def test_d7_a_domain_that_is_no_level_is_refused_with_those_there_are() -> None:
    worker = component("w", topologyConstraint=packed("numa"))
    assert errors(deployment("d", worker, topologyConstraint=packed("region"))) == [
        'spec.topologyConstraint.packDomain: Invalid value: "region": does not exist in ClusterTopology '
        '"grove-topology"; available domains: [block host rack zone]',
        'spec.components[0].topologyConstraint.packDomain: Invalid value: "numa": does not exist in ClusterTopology '
        '"grove-topology"; available domains: [block host rack zone]',
    ]


def test_d7_an_unknown_domain_is_refused_with_the_seven() -> None:
    (found,) = errors(deployment("d", component("w"), topologyConstraint=packed("aisle")))
    assert found.startswith('spec.topologyConstraint.packDomain: Unsupported value: "aisle": supported values:')
    assert all(domain in found for domain in ("region", "zone", "datacenter", "block", "rack", "host", "numa"))


def test_d7_a_missing_topology_is_a_refusal() -> None:
    found = errors(deployment("d", component("w"), topologyConstraint=packed("rack", "gb200")))
    assert found == [
        'spec.topologyConstraint.clusterTopologyName: Invalid value: "gb200": '
        "references a ClusterTopology resource that was not found"
    ]


def test_d7_an_unreadable_topology_is_a_refusal() -> None:
    found = errors(
        deployment("d", component("w"), topologyConstraint=packed("rack")), view=View(forbidden="grove-topology")
    )
    assert found == [
        'spec.topologyConstraint.clusterTopologyName: Invalid value: "grove-topology": '
        "failed to read ClusterTopology: clustertopologies is forbidden"
    ]


def test_d7_a_deployment_without_topology_reads_none() -> None:
    assert errors(deployment("d", component("w")), view=View(forbidden="grove-topology")) == []


def test_d7_only_creation_reads_the_topology() -> None:
    obj = deployment("d", component("w"), topologyConstraint=packed("rack"))
    RULES.mutate(request(obj), View())
    changed = copy.deepcopy(obj)
    changed["metadata"]["labels"] = {"team": "a"}
    assert errors(changed, obj, view=View({})) == []


def test_a_name_without_any_constraint_is_refused() -> None:
    found = errors(deployment("d", component("w"), topologyConstraint={"clusterTopologyName": "grove-topology"}))
    assert found == [
        "spec.topologyConstraint.packDomain: Required value: is required when no component topologyConstraint is set"
    ]


def test_topology_off_grove_is_refused_and_not_ignored() -> None:
    obj = deployment(
        "d", component("w"), annotations={"nvidia.com/enable-grove": "False"}, topologyConstraint=packed("rack")
    )
    (found,) = errors(obj)
    assert found.startswith("spec.topologyConstraint: Forbidden: requires the Grove pathway")


_FIXED = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change topology constraints"
)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, {"packDomain": "rack"}, '{"packDomain":"rack"}'),
        ({"packDomain": "rack"}, {"packDomain": "host"}, '{"packDomain":"host"}'),
        ({"packDomain": "rack"}, None, "null"),
    ],
)
@pytest.mark.parametrize("at_component", [False, True])
def test_d8_topology_cannot_be_added_changed_or_removed(
    before: Json | None, after: Json | None, shown: str, at_component: bool
) -> None:
    def made(constraint: Json | None) -> Json:
        given: dict[str, Any] = {"topologyConstraint": constraint} if constraint else {}
        return deployment("d", component("w", **given)) if at_component else deployment("d", component("w"), **given)

    path = "spec.components[0].topologyConstraint" if at_component else "spec.topologyConstraint"
    assert errors(made(after), made(before)) == [f"{path}: Invalid value: {shown}: {_FIXED}"]


def test_d8_everything_else_may_change_beside_topology() -> None:
    old = deployment("d", component("w", topologyConstraint=packed("rack")))
    new = deployment("d", component("w", gpus=4, replicas=5, topologyConstraint=packed("rack")))
    assert errors(new, old) == []


def test_components_cannot_come_or_go() -> None:
    found = errors(deployment("d", component("a"), component("b")), deployment("d", component("a"), component("c")))
    assert found == [
        "spec.components: Forbidden: component topology is immutable and cannot be modified after creation: "
        "components added: [b], components removed: [c]"
    ]


@pytest.mark.parametrize("before", [None, [], [None], [[]], [{}], [{"name": {}}], [{"name": "a"}, 7]])
def test_whatever_was_stored_before_a_change_is_answered(before: Any) -> None:
    old = deployment("llm", component("a"))
    old["spec"]["components"] = before
    judged = errors(deployment("llm", component("a")), old)
    assert all("immutable" in error for error in judged)


def test_a_component_stays_on_one_node_or_on_several() -> None:
    new = deployment("d", component("a", multinode={"nodeCount": 2}))
    assert errors(new, deployment("d", component("a"))) == [
        'spec.components[0].multinode: Invalid value: {"nodeCount":2}: '
        "cannot change node topology between single-node and multi-node after creation"
    ]
    more = deployment("d", component("a", multinode={"nodeCount": 3}))
    assert errors(more, new) == []


def test_typed_topology_and_a_fragment_with_topology_exclude_each_other() -> None:
    fragment = {"apiVersion": "grove.io/v1alpha1", "value": {"topologyConstraint": {"pack": {"preferred": "rack"}}}}
    obj = deployment("d", component("w", providerOverride=fragment), topologyConstraint=packed("zone"))
    (found,) = errors(obj)
    assert found.startswith("spec.components[0].providerOverride.value: Forbidden: cannot be combined with")


def test_a_fragment_may_set_topology_only() -> None:
    fragment = {"apiVersion": "grove.io/v1alpha1", "value": {"replicas": 3}}
    assert errors(deployment("d", component("w", providerOverride=fragment))) == [
        "spec.components[0].providerOverride.value: Forbidden: only topologyConstraint may be set, found replicas"
    ]


def test_a_fragment_is_for_the_object_of_its_place() -> None:
    fragment = {"apiVersion": "grove.io/v1alpha1", "target": "PodCliqueSet", "value": {}}
    (found,) = errors(deployment("d", component("w", providerOverride=fragment)))
    assert found == (
        'spec.components[0].providerOverride.target: Unsupported value: "PodCliqueSet": '
        'supported values: "PodCliqueTemplateSpec"'
    )
    right = {**fragment, "target": "PodCliqueScalingGroupConfig"}
    assert errors(deployment("d", component("w", multinode={"nodeCount": 2}, providerOverride=right))) == []


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("spec.priorityClassName", {"priorityClassName": "high"}),
        ("spec.experimental.kvTransferPolicy", {"experimental": {"kvTransferPolicy": {"domain": "rack"}}}),
    ],
)
def test_what_only_grove_can_honour_is_refused_off_grove(path: str, spec: Json) -> None:
    (found,) = errors(deployment("d", component("w"), annotations={"nvidia.com/enable-grove": "false"}, **spec))
    assert found.startswith(f"{path}: Forbidden: requires the Grove pathway")


def test_the_policy_for_cache_transfers_is_immutable() -> None:
    old = deployment("d", component("w"), experimental={"kvTransferPolicy": {"domain": "rack"}})
    (found,) = errors(deployment("d", component("w")), old)
    assert found == (
        "spec.experimental.kvTransferPolicy: Invalid value: null: is immutable and cannot be added, removed, or "
        "changed after creation; delete and recreate the DynamoGraphDeployment to change the KV transfer policy"
    )


def test_the_least_number_of_replicas_is_immutable_and_fits() -> None:
    two = deployment("d", component("w", replicas=2, minAvailable=2))
    assert errors(two, deployment("d", component("w", replicas=2))) == [
        "spec.components[0].minAvailable: Invalid value: 2: minAvailable is immutable after creation"
    ]
    assert errors(deployment("d", component("w", replicas=0, minAvailable=2))) == []
    assert errors(deployment("d", component("w", replicas=1, minAvailable=2))) == [
        "spec.components[0].minAvailable: Invalid value: 2: "
        "minAvailable must be less than or equal to replicas unless replicas is 0"
    ]


def test_who_renders_a_deployment_cannot_be_changed_and_comes_back_if_left_out() -> None:
    old = deployment("d", component("w"), annotations={"nvidia.com/workload-provider": "grove"})
    other = deployment("d", component("w"), annotations={"nvidia.com/workload-provider": "component"})
    assert errors(other, old) == [
        'metadata.annotations[nvidia.com/workload-provider]: Invalid value: "component": field is immutable'
    ]
    changed = RULES.mutate(request(deployment("d", component("w")), old), View()).object
    assert changed is not None
    assert changed["metadata"]["annotations"] == {"nvidia.com/workload-provider": "grove"}


def test_a_restart_cannot_be_asked_for_with_the_creation() -> None:
    (found,) = errors(deployment("d", component("w"), restart={"id": "now"}))
    assert found.startswith("spec.restart: Forbidden: must be unset on create")


def test_replicas_that_an_adapter_owns_are_changed_by_it_and_by_planners_only() -> None:
    old = deployment("d", component("w", replicas=1, scalingAdapter={}))
    new = deployment("d", component("w", replicas=2, scalingAdapter={}))
    (found,) = errors(new, old)
    assert found.startswith("spec.components[0].replicas: Forbidden: cannot be modified directly")
    assert errors(new, old, user="system:serviceaccount:ml:planner-serviceaccount") == []
    assert errors(new, old, user="operator", operator_users=frozenset({"operator"})) == []


def test_a_frontend_that_is_no_container_of_the_pod_is_refused_at_creation_only() -> None:
    obj = deployment("d", component("w", frontendSidecar="front"))
    text = "must match a podTemplate.spec.containers name"
    assert errors(obj) == [f'spec.components[0].frontendSidecar: Invalid value: "front": {text}']
    changed = copy.deepcopy(obj)
    changed["metadata"]["labels"] = {"team": "a"}
    assert errors(changed, obj) == []
    obj["spec"]["components"][0]["podTemplate"]["spec"]["containers"].append({"name": "front", "image": "f:1"})
    assert errors(obj) == []


def test_a_main_container_with_an_image_is_required_at_creation_only() -> None:
    obj = deployment("d", {"name": "w", "type": "worker"})
    assert errors(obj) == ["spec.components[0].podTemplate.spec.containers: Required value: is required"]
    assert errors(obj, obj) == []


def test_names_that_do_not_fit_are_told_with_what_to_shorten() -> None:
    name = "a" * 20
    (found,) = errors(deployment("disaggregated", component(name, multinode={"nodeCount": 2})))
    assert found == (
        f'spec.components[0].name: Invalid value: "{name}": combined resource name length 52 exceeds the '
        f'45-character pod-name limit (PCS name + PCSG name + longest PodClique name "{name}-ldr"); '
        f'shorten DynamoGraphDeployment name "disaggregated" or component name "{name}"'
    )


@pytest.mark.parametrize("shape", [{"replicas": 60_000}, {"multinode": {"nodeCount": 2**31 - 1}}])
def test_a_deployment_of_more_pods_than_any_cluster_has_is_refused(shape: Json) -> None:
    (found,) = errors(deployment("d", component("a", **shape), component("b", replicas=60_000)))
    assert found.startswith("spec.components: Forbidden: the deployment would have ")
    assert found.endswith(" pods, at most 100000 are allowed")


def test_replicas_that_are_null_are_as_if_nothing_was_said() -> None:
    assert errors(deployment("d", component("a", replicas=None, multinode={"nodeCount": 2}))) == []


def test_all_errors_come_at_once() -> None:
    bad = [component(name, topologyConstraint=packed("zone")) for name in ("a", "b")]
    assert len(errors(deployment("d", *bad, topologyConstraint=packed("rack")))) == 2


def test_errors_speak_of_services_to_who_wrote_services() -> None:
    beta = deployment(
        "d", component("Decode", topologyConstraint=packed("zone")), topologyConstraint=packed("rack", "x")
    )
    found = errors(to_alpha(beta))
    assert any(each.startswith("spec.services[Decode].topologyConstraint.packDomain: Invalid") for each in found)
    assert any(each.startswith('spec.topologyConstraint.topologyProfile: Invalid value: "x"') for each in found)


def test_d8_values_speak_of_profiles_to_who_wrote_profiles() -> None:
    now, then = (deployment("d", component("w"), topologyConstraint=packed("rack", name)) for name in ("x", "y"))
    shown = '{"packDomain":"rack","topologyProfile":"x"}'
    assert errors(to_alpha(now), to_alpha(then)) == [f"spec.topologyConstraint: Invalid value: {shown}: {_FIXED}"]


@pytest.mark.parametrize(
    ("pod", "path"),
    [({}, ""), ({"extraPodSpec": {"mainContainer": {"args": ["a"]}}}, ".image")],
    ids=["no container", "no image"],
)
def test_a_missing_image_is_named_where_the_old_version_has_it(pod: Json, path: str) -> None:
    alpha = to_alpha(deployment("d", component("Decode")))
    alpha["spec"]["services"]["Decode"] = {"componentType": "worker", **pod}
    field = f"spec.services[Decode].extraPodSpec.mainContainer{path}"
    assert errors(alpha) == [f"{field}: Required value: is required"]


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ({"spec": {"containers": [{"name": "main", "image": "a", "args": "b"}]}}, "spec.containers[0].args"),
        ({"spec": {"containers": [{"name": "main", "image": "a", "env": {"A": "b"}}]}}, "spec.containers[0].env"),
        ({"spec": {"containers": [{"name": "main", "image": "a", "env": [{}]}]}}, "spec.containers[0].env[0].name"),
        ({"spec": {"containers": [{"name": "main", "image": "a"}], "volumes": "b"}}, "spec.volumes"),
        ({"metadata": "a", "spec": {"containers": [{"name": "main", "image": "a"}]}}, "metadata"),
        ({"metadata": {"labels": ["a"]}, "spec": {"containers": [{"name": "main", "image": "a"}]}}, "metadata.labels"),
        (
            {
                "spec": {
                    "containers": [{"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "b"}}}]
                }
            },
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
        ),
    ],
)
def test_d7_a_template_that_no_pod_can_be_made_of_is_refused(template: Json, path: str) -> None:
    (found,) = errors(deployment("d", {"name": "w", "podTemplate": template}))
    assert found.startswith(f"spec.components[0].podTemplate.{path}: ")


def test_templates_are_named_as_in_the_old_version() -> None:
    obj = deployment("d", component("w"))
    obj["spec"]["components"][0]["podTemplate"]["spec"] |= {"tolerations": "a", "hostNetwork": "yes"}
    obj["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["args"] = "b"
    found = {each.split(": ")[0] for each in errors(to_alpha(obj))}
    place = "spec.services[w].extraPodSpec"
    assert found == {f"{place}.mainContainer.args", f"{place}.tolerations", f"{place}.hostNetwork"}


def test_s2_no_topology_name_is_filled_in() -> None:
    obj = deployment("d", component("w"), topologyConstraint=packed("rack"))
    changed = RULES.mutate(request(obj), View()).object
    assert changed is not None
    assert changed["spec"]["topologyConstraint"] == {"packDomain": "rack"}


def test_replicas_and_the_minimum_are_filled_in() -> None:
    changed = RULES.mutate(request(deployment("d", component("w"))), View()).object
    assert changed is not None
    (worker,) = changed["spec"]["components"]
    assert (worker["replicas"], worker["minAvailable"]) == (1, 1)
    assert changed["metadata"]["annotations"]["nvidia.com/workload-provider"] == "grove"


def test_inv9_defaulting_twice_is_defaulting_once_in_both_versions() -> None:
    beta = deployment("d", component("w", multinode={"nodeCount": 2}), component("f", "frontend"))
    for obj in (beta, to_alpha(beta)):
        before = copy.deepcopy(obj)
        once = RULES.mutate(request(obj), View()).object
        assert once is not None
        assert once["apiVersion"] == obj["apiVersion"]
        assert RULES.mutate(request(once), View()).object is None
        assert obj == before


_SHAPES = st.lists(
    st.tuples(
        st.sampled_from(["frontend", "worker", "prefill", "decode", "planner", ""]),
        st.one_of(st.none(), st.integers(0, 3)),
        st.one_of(st.none(), st.integers(2, 3)),
        st.sampled_from(["", *LEVELS, "numa"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_SHAPES, st.sampled_from(["", *LEVELS]), st.booleans())
def test_inv9_admission_is_idempotent_whatever_is_asked(shapes: list[Any], domain: str, opted_out: bool) -> None:
    """What was filled in once is left alone, and the verdict on it is the same in every round and version."""
    parts = []
    for index, (kind, replicas, nodes, narrow, adapted) in enumerate(shapes):
        more: Json = {"replicas": replicas} if replicas is not None else {}
        more |= {"multinode": {"nodeCount": nodes}} if nodes else {}
        more |= {"topologyConstraint": packed(narrow)} if narrow else {}
        parts.append(component(f"c{index}", kind, **{**more, **({"scalingAdapter": {}} if adapted else {})}))
    spec = {"topologyConstraint": packed(domain)} if domain else {}
    beta = deployment("d", *parts, annotations={"nvidia.com/enable-grove": str(not opted_out)}, **spec)
    verdicts = []
    for obj in (beta, to_alpha(beta)):
        once = RULES.mutate(request(obj), View()).object
        assert once is not None
        assert RULES.mutate(request(once), View()).object is None
        first, second = (RULES.validate(request(once), View()) for _ in range(2))
        assert first == second
        verdicts.append((first.allowed, len(first.errors)))
        if first.allowed:
            assert RULES.validate(request(once, once), View()).allowed
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize(
    "junk", [None, 3, "x", [], {}, {"spec": []}, {"spec": {"components": 3}}, {"spec": {"components": [3]}}]
)
def test_inv9_everything_gets_an_answer(junk: object) -> None:
    obj = {"apiVersion": "nvidia.com/v1beta1", "metadata": {"name": "d"}}
    asked = replace(request(obj), object=junk if isinstance(junk, dict) else {**obj, "spec": junk})
    RULES.mutate(asked, View())
    RULES.validate(asked, View())
