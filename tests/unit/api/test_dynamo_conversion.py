"""DynamoGraphDeployment between v1alpha1, v1beta1 and the list form (D11, D12): nothing is lost on the way."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spinney.api.crds import crd
from spinney.api.domains import DOMAINS
from spinney.api.dynamo_conversion import ALPHA, BETA, ConversionError, convert, from_list_form, to_alpha, to_beta

Object = dict[str, Any]

ALPHA_DEPLOYMENT: Object = {
    "apiVersion": ALPHA,
    "kind": "DynamoGraphDeployment",
    "metadata": {"name": "llm", "namespace": "default"},
    "spec": {
        "backendFramework": "vllm",
        "envs": [{"name": "A", "value": "1"}],
        "topologyConstraint": {"topologyProfile": "h100", "packDomain": "zone"},
        "services": {
            "Worker": {
                "componentType": "worker",
                "subComponentType": "prefill",
                "replicas": 2,
                "multinode": {"nodeCount": 4},
                "resources": {"limits": {"gpu": "8", "custom": {"rdma/ib": "1"}}, "requests": {"cpu": "10"}},
                "envFromSecret": "hf-token",
                "sharedMemory": {"size": "80Gi"},
                "topologyConstraint": {"packDomain": "block"},
                "extraPodSpec": {
                    "nodeSelector": {"pool": "gpu"},
                    "mainContainer": {"image": "runtime:1", "args": ["--tp", "8"]},
                },
            },
            "Frontend": {"componentType": "frontend", "replicas": 1, "scalingAdapter": {"enabled": True}},
        },
    },
}


def test_an_alpha_deployment_becomes_components_with_pod_templates() -> None:
    spec = to_beta(ALPHA_DEPLOYMENT)["spec"]
    assert [one["name"] for one in spec["components"]] == ["Frontend", "Worker"]
    frontend, worker = spec["components"]
    assert frontend == {"name": "Frontend", "type": "frontend", "replicas": 1, "scalingAdapter": {}}
    assert worker["type"] == "prefill"
    assert worker["sharedMemorySize"] == "80Gi"
    assert worker["multinode"] == {"nodeCount": 4}
    assert worker["podTemplate"]["spec"] == {
        "nodeSelector": {"pool": "gpu"},
        "containers": [
            {
                "name": "main",
                "image": "runtime:1",
                "args": ["--tp", "8"],
                "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "1"}, "requests": {"cpu": "10"}},
                "envFrom": [{"secretRef": {"name": "hf-token"}}],
            }
        ],
    }


def test_d11_the_topology_name_is_passed_through_under_the_name_of_each_version() -> None:
    beta = to_beta(ALPHA_DEPLOYMENT)
    assert beta["spec"]["topologyConstraint"] == {"clusterTopologyName": "h100", "packDomain": "zone"}
    assert to_alpha(beta)["spec"]["topologyConstraint"] == ALPHA_DEPLOYMENT["spec"]["topologyConstraint"]


def test_a_usual_deployment_needs_no_leftovers() -> None:
    beta = to_beta(ALPHA_DEPLOYMENT)
    assert "annotations" not in beta["metadata"]
    assert to_alpha(beta) == ALPHA_DEPLOYMENT


def test_the_argument_is_not_changed() -> None:
    before = copy.deepcopy(ALPHA_DEPLOYMENT)
    to_beta(ALPHA_DEPLOYMENT)
    assert before == ALPHA_DEPLOYMENT


def with_ingress() -> Object:
    alpha = copy.deepcopy(ALPHA_DEPLOYMENT)
    alpha["spec"]["services"]["Frontend"]["ingress"] = {"enabled": True, "host": "a"}
    alpha["spec"]["pvcs"] = [{"name": "cache"}]
    return alpha


def test_what_beta_cannot_say_is_kept_in_an_annotation_and_comes_back() -> None:
    beta = to_beta(with_ingress())
    assert "nvidia.com/dgd-spec" in beta["metadata"]["annotations"]
    assert "ingress" not in beta["spec"]["components"][0]
    assert to_alpha(beta) == with_ingress()


def test_an_edit_in_between_is_kept_and_so_is_what_beta_cannot_say() -> None:
    beta = to_beta(with_ingress())
    beta["spec"]["components"][0]["replicas"] = 5
    alpha = to_alpha(beta)
    assert alpha["spec"]["services"]["Frontend"]["replicas"] == 5
    assert alpha["spec"]["services"]["Frontend"]["ingress"] == {"enabled": True, "host": "a"}
    assert alpha["spec"]["pvcs"] == [{"name": "cache"}]


def test_a_component_removed_in_between_does_not_come_back() -> None:
    beta = to_beta(with_ingress())
    del beta["spec"]["components"][0]
    assert list(to_alpha(beta)["spec"]["services"]) == ["Worker"]


def test_a_variable_removed_in_between_does_not_come_back() -> None:
    alpha = with_ingress()
    alpha["spec"]["services"]["Frontend"] |= {"envs": [{"name": "A", "value": "1"}], "labels": {"a": "b"}}
    beta = to_beta(alpha)
    del beta["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["env"]
    assert "envs" not in to_alpha(beta)["spec"]["services"]["Frontend"]


def test_an_image_changed_in_beta_leaves_alpha_its_other_fields_as_they_were_written() -> None:
    alpha = with_ingress()
    alpha["spec"]["services"]["Frontend"] |= {"sharedMemory": {}, "componentType": "router"}
    beta = to_beta(alpha)
    frontend, worker = beta["spec"]["components"]
    worker["podTemplate"]["spec"]["containers"][0]["image"] = "runtime:2"
    frontend["replicas"] = 4
    services = to_alpha(beta)["spec"]["services"]
    assert services["Worker"]["extraPodSpec"]["mainContainer"]["image"] == "runtime:2"
    assert services["Frontend"] == {**alpha["spec"]["services"]["Frontend"], "replicas": 4}


@pytest.mark.parametrize(("containers", "expected"), [(["main", "router"], "router"), (["main"], None)])
def test_a_frontend_of_another_name_stays_one_as_long_as_its_container_is_there(
    containers: list[str], expected: str | None
) -> None:
    pod = {"spec": {"containers": [{"name": name, "image": "a"} for name in ("main", "router")]}}
    component = {"name": "w", "frontendSidecar": "router", "podTemplate": pod}
    alpha = to_alpha({"apiVersion": BETA, "metadata": {"name": "d"}, "spec": {"components": [component]}})
    extra = alpha["spec"]["services"]["w"]["extraPodSpec"]
    extra["mainContainer"]["image"] = "b"
    extra["containers"] = [one for one in extra["containers"] if one["name"] in containers]
    (found,) = to_beta(alpha)["spec"]["components"]
    assert found["podTemplate"]["spec"]["containers"][0]["image"] == "b"
    assert found.get("frontendSidecar") == expected


def test_resources_are_joined_by_name_and_a_claim_does_not_take_the_gpus_away() -> None:
    service = {
        "resources": {"limits": {"gpu": "1", "cpu": "4"}, "requests": {"custom": {"ephemeral-storage": "2Gi"}}},
        "extraPodSpec": {"mainContainer": {"resources": {"limits": {"cpu": "8"}, "claims": [{"name": "rdma"}]}}},
    }
    alpha = {"apiVersion": ALPHA, "metadata": {"name": "d"}, "spec": {"services": {"w": service}}}
    (found,) = to_beta(alpha)["spec"]["components"]
    assert found["podTemplate"]["spec"]["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "1", "cpu": "8"},
        "requests": {"ephemeral-storage": "2Gi"},
        "claims": [{"name": "rdma"}],
    }
    assert to_alpha(to_beta(alpha)) == alpha


def test_a_second_compilation_cache_is_a_mount_like_the_others() -> None:
    mounts = [{"name": name, "mountPoint": f"/{name}", "useAsCompilationCache": True} for name in ("one", "two")]
    alpha = {"apiVersion": ALPHA, "metadata": {"name": "d"}, "spec": {"services": {"w": {"volumeMounts": mounts}}}}
    (found,) = to_beta(alpha)["spec"]["components"]
    assert found["compilationCache"] == {"pvcName": "one", "mountPath": "/one"}
    assert found["podTemplate"]["spec"]["containers"][0]["volumeMounts"] == [{"name": "two", "mountPath": "/two"}]
    assert to_alpha(to_beta(alpha)) == alpha


def test_the_order_of_components_survives_the_way_through_alpha() -> None:
    components = [{"name": name, "type": "worker"} for name in ("z", "B", "a")]
    beta = {"apiVersion": BETA, "kind": "DynamoGraphDeployment", "metadata": {"name": "d"}}
    beta["spec"] = {"components": components}
    assert to_beta(to_alpha(beta)) == beta


def test_provider_overrides_survive_an_edit_in_alpha() -> None:
    override = {"apiVersion": "grove.io/v1alpha1", "value": {"topologyConstraint": {"pack": {"preferred": "rack"}}}}
    component = {
        "name": "w",
        "providerOverride": override,
        "multinode": {"nodeCount": 2, "leader": {"providerOverride": override}},
        "experimental": {"grove": {"forceScalingGroup": True}},
    }
    beta = {"apiVersion": BETA, "metadata": {"name": "d"}, "spec": {"components": [component]}}
    alpha = to_alpha(beta)
    alpha["spec"]["services"]["w"]["replicas"] = 3
    assert to_beta(alpha)["spec"]["components"] == [{**component, "replicas": 3}]


def test_services_and_components_are_renamed_in_the_status() -> None:
    numbers = {"componentKind": "PodClique", "componentNames": ["a-0-w"], "replicas": 1, "updatedReplicas": 1}
    beta = {"apiVersion": BETA, "metadata": {"name": "d"}, "status": {"state": "pending", "components": {"w": numbers}}}
    alpha = to_alpha(beta)
    assert alpha["status"]["services"] == {"w": {**numbers, "componentName": "a-0-w"}}
    assert to_beta(alpha) == beta


def test_d12_the_list_form_becomes_components_in_its_order() -> None:
    found = from_list_form(
        {
            "apiVersion": ALPHA,
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": "d"},
            "spec": {
                "topologyConstraint": {"packDomain": "zone"},
                "services": [
                    {
                        "name": "VllmWorker",
                        "multinode": {"nodeCount": 4},
                        "topologyConstraint": {"packDomain": "block"},
                    },
                    {"name": "Frontend", "replicas": 1},
                ],
            },
        }
    )
    assert found["apiVersion"] == BETA
    assert found["spec"]["topologyConstraint"] == {"packDomain": "zone"}
    assert found["spec"]["components"] == [
        {"name": "VllmWorker", "multinode": {"nodeCount": 4}, "topologyConstraint": {"packDomain": "block"}},
        {"name": "Frontend", "replicas": 1},
    ]


def test_d12_services_of_the_list_form_may_use_words_of_both_versions() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    found = from_list_form(
        {
            "apiVersion": BETA,
            "metadata": {"name": "d"},
            "spec": {
                "env": [{"name": "A", "value": "1"}],
                "topologyConstraint": {"clusterTopologyName": "h100", "packDomain": "zone"},
                "services": [
                    {"name": "b", "type": "prefill", "podTemplate": template},
                    {"name": "a", "componentType": "frontend", "extraPodSpec": {"mainContainer": {"image": "i"}}},
                ],
            },
        }
    )
    assert found["spec"] == {
        "env": [{"name": "A", "value": "1"}],
        "topologyConstraint": {"clusterTopologyName": "h100", "packDomain": "zone"},
        "components": [
            {"name": "b", "type": "prefill", "podTemplate": template},
            {"name": "a", "type": "frontend", "podTemplate": template},
        ],
    }


@pytest.mark.parametrize("services", [{}, [{}], [{"name": "a"}, {"name": "a"}], ["a"]])
def test_d12_a_list_form_without_names_is_refused(services: Any) -> None:
    with pytest.raises(ConversionError, match=r"spec.services: expected"):
        from_list_form({"apiVersion": ALPHA, "spec": {"services": services}})


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"nvidia\.com/v2"):
        convert(ALPHA_DEPLOYMENT, "nvidia.com/v2")
    assert convert(ALPHA_DEPLOYMENT, ALPHA) == ALPHA_DEPLOYMENT


@pytest.mark.parametrize(
    "spec",
    [{"services": {"a": []}}, {"services": [1]}, {"services": {"a": {"volumeMounts": [{}]}}}, [], {"services": 1}],
)
def test_an_object_of_the_wrong_shape_is_refused_not_crashed_on(spec: Any) -> None:
    with pytest.raises(ConversionError, match="does not have the shape of its version"):
        to_beta({"apiVersion": ALPHA, "metadata": {"name": "d"}, "spec": spec})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        '{"of":"nvidia.com/v1alpha1","parts":{"w":1}}',
        '{"of":"nvidia.com/v1alpha1","rest":{"services":5}}',
        '{"of":"nvidia.com/v1beta1","rest":{"pvcs":[]}}',
    ],
)
def test_a_broken_annotation_is_ignored(text: str) -> None:
    beta = {"apiVersion": BETA, "metadata": {"name": "d", "annotations": {"nvidia.com/dgd-spec": text}}}
    beta["spec"] = {"components": [{"name": "w"}]}
    assert to_alpha(beta)["spec"] == {"services": {"w": {}}}


words = st.text("abcXYZ019", min_size=1, max_size=4)
amounts = st.sampled_from(["1", "2Gi", "500m"])
string_maps = st.dictionaries(words, words, min_size=1, max_size=2)
env = st.lists(st.fixed_dictionaries({"name": words, "value": words}), min_size=1, max_size=2)
probe = st.fixed_dictionaries({"httpGet": st.fixed_dictionaries({"path": words, "port": st.integers(1, 99)})})
constraint = st.fixed_dictionaries({"packDomain": st.sampled_from(DOMAINS)})
container = st.fixed_dictionaries(
    {"name": words},
    optional={
        "image": words,
        "args": st.lists(words, min_size=1),
        "env": env,
        "envFrom": st.lists(st.fixed_dictionaries({"secretRef": st.fixed_dictionaries({"name": words})}), max_size=2),
        "livenessProbe": probe,
        "volumeMounts": st.lists(st.fixed_dictionaries({"name": words, "mountPath": words}), max_size=2),
        "resources": st.fixed_dictionaries({}, optional={"limits": st.dictionaries(words, amounts)}),
    },
)
pod_spec = {
    "nodeSelector": string_maps,
    "containers": st.lists(st.one_of(container, container.map(lambda one: {**one, "name": "main"})), max_size=3),
    "volumes": st.lists(
        words.map(lambda name: {"name": name, "persistentVolumeClaim": {"claimName": name}}), max_size=2
    ),
}
alpha_resources = st.fixed_dictionaries(
    {},
    optional={"cpu": amounts, "memory": amounts, "gpu": amounts, "gpuType": words, "custom": string_maps},
)
services = st.fixed_dictionaries(
    {},
    optional={
        "annotations": string_maps,
        "labels": string_maps,
        "serviceName": words,
        "componentType": st.sampled_from(["worker", "frontend", "other", ""]),
        "subComponentType": st.sampled_from(["prefill", "decode", "other"]),
        "dynamoNamespace": words,
        "globalDynamoNamespace": st.booleans(),
        "resources": st.fixed_dictionaries({}, optional={"limits": alpha_resources, "requests": alpha_resources}),
        "autoscaling": string_maps,
        "envs": env,
        "envFromSecret": words,
        "volumeMounts": st.lists(
            st.fixed_dictionaries(
                {"name": words}, optional={"mountPoint": words, "useAsCompilationCache": st.booleans()}
            ),
            max_size=3,
        ),
        "ingress": string_maps,
        "sharedMemory": st.fixed_dictionaries({}, optional={"size": amounts, "disabled": st.booleans()}),
        "extraPodMetadata": st.fixed_dictionaries({}, optional={"labels": string_maps, "annotations": string_maps}),
        "extraPodSpec": st.fixed_dictionaries({}, optional={**pod_spec, "mainContainer": container}),
        "livenessProbe": probe,
        "readinessProbe": probe,
        "modelRef": st.fixed_dictionaries({"name": words}),
        "minAvailable": st.integers(1, 3),
        "eppConfig": string_maps,
        "failover": string_maps,
        "checkpoint": string_maps,
        "replicas": st.integers(0, 3),
        "multinode": st.fixed_dictionaries({"nodeCount": st.integers(2, 4)}),
        "scalingAdapter": st.fixed_dictionaries({}, optional={"enabled": st.booleans()}),
        "frontendSidecar": st.fixed_dictionaries({}, optional={"image": words, "envs": env, "envFromSecret": words}),
        "gpuMemoryService": st.fixed_dictionaries({"enabled": st.booleans()}, optional={"mode": words}),
        "topologyConstraint": constraint,
    },
)
override = st.fixed_dictionaries({"apiVersion": words, "value": string_maps})
components = st.fixed_dictionaries(
    {"name": words},
    optional={
        "type": st.sampled_from(["worker", "prefill", "frontend", ""]),
        "providerOverride": override,
        "runtimeVersionOverride": words,
        "globalDynamoNamespace": st.booleans(),
        "minAvailable": st.integers(1, 3),
        "modelRef": st.fixed_dictionaries({"name": words}),
        "eppConfig": string_maps,
        "podTemplate": st.fixed_dictionaries(
            {},
            optional={
                "metadata": st.fixed_dictionaries({}, optional={"labels": string_maps, "name": words}),
                "spec": st.fixed_dictionaries({}, optional=pod_spec),
            },
        ),
        "replicas": st.integers(0, 3),
        "multinode": st.fixed_dictionaries({"nodeCount": st.integers(2, 4)}, optional={"leader": string_maps}),
        "sharedMemorySize": st.one_of(amounts, st.just("0"), st.just(0)),
        "scalingAdapter": st.just({}),
        "frontendSidecar": st.one_of(words, st.just("sidecar-frontend")),
        "compilationCache": st.fixed_dictionaries({"pvcName": words}, optional={"mountPath": words}),
        "experimental": st.fixed_dictionaries(
            {}, optional={"grove": string_maps, "failover": string_maps, "checkpoint": string_maps}
        ),
        "topologyConstraint": constraint,
    },
)
restart = st.fixed_dictionaries({"id": words}, optional={"strategy": st.just({"type": "Parallel"})})
common = {
    "annotations": string_maps,
    "labels": string_maps,
    "priorityClassName": words,
    "backendFramework": words,
    "restart": restart,
}


def named_constraint(name: str) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries({}, optional={name: words, "packDomain": st.sampled_from(DOMAINS)})


alpha_objects = st.fixed_dictionaries(
    {
        "apiVersion": st.just(ALPHA),
        "metadata": st.fixed_dictionaries({"name": words}, optional={"annotations": string_maps}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                **common,
                "envs": env,
                "services": st.dictionaries(words, services),
                "pvcs": st.just([]),
                "topologyConstraint": named_constraint("topologyProfile"),
            },
        ),
    }
)
beta_objects = st.fixed_dictionaries(
    {
        "apiVersion": st.just(BETA),
        "metadata": st.fixed_dictionaries({"name": words}, optional={"annotations": string_maps}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                **common,
                "env": env,
                "components": st.lists(components, max_size=3, unique_by=lambda one: one["name"]),  # type: ignore[index]
                "experimental": string_maps,
                "providerOverride": override,
                "topologyConstraint": named_constraint("clusterTopologyName"),
            },
        ),
    }
)


@pytest.mark.parametrize(
    ("version", "parts", "made"), [("v1alpha1", "services", services), ("v1beta1", "components", components)]
)
def test_every_field_of_the_definition_goes_both_ways(
    version: str, parts: str, made: st.SearchStrategy[Object]
) -> None:
    """What is made up for these tests has every field that there is, of the graph and of its parts."""
    (found,) = [each for each in crd("DynamoGraphDeployment")["spec"]["versions"] if each["name"] == version]
    fields = found["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    part = fields[parts].get("items") or fields[parts]["additionalProperties"]
    graph = alpha_objects if version == "v1alpha1" else beta_objects
    assert set(fields) == set(_keys(_inner(graph)["spec"]))
    assert set(part["properties"]) == set(_keys(made))


def _inner(made: Any) -> dict[str, Any]:
    made = getattr(made, "wrapped_strategy", made)
    return {**made.mapping, **(getattr(made, "optional", None) or {})}


def _keys(made: Any) -> list[str]:
    return list(_inner(made))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(alpha_objects)
def test_alpha_survives_the_way_through_beta(alpha: Object) -> None:
    assert to_alpha(to_beta(alpha)) == alpha


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(beta_objects)
def test_beta_survives_the_way_through_alpha(beta: Object) -> None:
    assert to_beta(to_alpha(beta)) == beta


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(beta_objects)
def test_going_back_and_forth_changes_nothing_further(beta: Object) -> None:
    alpha = to_alpha(beta)
    assert to_alpha(to_beta(alpha)) == alpha


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(alpha_objects, st.integers(4, 9))
def test_an_edit_of_replicas_in_beta_always_reaches_alpha(alpha: Object, replicas: int) -> None:
    beta = to_beta(alpha)
    for component in beta["spec"].get("components", ()):
        component["replicas"] = replicas
    found = to_alpha(beta)["spec"].get("services", {})
    assert all(service["replicas"] == replicas for service in found.values())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(beta_objects)
def test_scaling_in_alpha_changes_nothing_else_in_beta(beta: Object) -> None:
    alpha = to_alpha(beta)
    for service in alpha["spec"].get("services", {}).values():
        service["replicas"] = 7
    for component in beta["spec"].get("components", ()):
        component["replicas"] = 7
    assert to_beta(alpha)["spec"] == beta["spec"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(alpha_objects)
def test_scaling_in_beta_changes_nothing_else_in_alpha(alpha: Object) -> None:
    beta = to_beta(alpha)
    for component in beta["spec"].get("components", ()):
        component["replicas"] = 7
    for service in alpha["spec"].get("services", {}).values():
        service["replicas"] = 7
    assert to_alpha(beta)["spec"] == alpha["spec"]
