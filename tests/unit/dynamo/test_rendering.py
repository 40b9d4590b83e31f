"""A deployment as a PodCliqueSet, field by field."""

from __future__ import annotations

import copy
import itertools
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.core.expansion.dynamo import generated_labels
from spinney.core.expansion.dynamo.deployment import Grove, services_of
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.multinode import BadDeployment, Observed, backend_of
from spinney.core.expansion.dynamo.podcliqueset import podcliqueset_of
from spinney.core.expansion.objects import SERVICES
from unit.dynamo.dynamo_kit import Json, component, deployment, packed

GOLDEN = Path(__file__).parents[2] / "golden" / "dynamo"
SETTINGS = DynamoSettings()

SINGLE = deployment(
    "chat",
    component("Frontend", "frontend"),
    component("Decode", gpus=4, line="python3 -m dynamo.vllm --model m --tensor-parallel-size 4", replicas=2),
    annotations={"nvidia.com/dynamo-operator-origin-version": "1.0.0"},
)
LEADER_WORKER = deployment(
    "big",
    component("Frontend", "frontend"),
    component(
        "Decode", gpus=8, line="python3 -m dynamo.sglang --model m --tp 16", multinode={"nodeCount": 2}, replicas=3
    ),
    topologyConstraint=packed("block"),
)
DISAGGREGATED = deployment(
    "disagg",
    component("Frontend", "frontend"),
    component(
        "Prefill",
        "prefill",
        gpus=8,
        line="python3 -m dynamo.trtllm --model m",
        multinode={"nodeCount": 2},
        topologyConstraint=packed("rack"),
    ),
    component("Decode", "decode", gpus=8, line="python3 -m dynamo.vllm --model m", topologyConstraint=packed("host")),
    topologyConstraint=packed("zone", "h100"),
    backendFramework="",
    priorityClassName="inference",
    labels={"team": "a"},
)


@pytest.mark.parametrize(
    ("name", "obj"),
    [("single-node", SINGLE), ("leader-worker", LEADER_WORKER), ("disaggregated", DISAGGREGATED)],
)
def test_the_golden_sets(name: str, obj: Json) -> None:
    """After a wanted change: SPINNEY_UPDATE_GOLDEN=1 pytest, then read the difference."""
    path, rendered = GOLDEN / f"{name}.yaml", podcliqueset_of(obj, SETTINGS)
    if os.environ.get("SPINNEY_UPDATE_GOLDEN"):
        path.write_text(yaml.safe_dump(rendered, sort_keys=False))
    assert rendered == yaml.safe_load(path.read_text())


def test_d1_d5_a_deployment_without_topology_renders_no_topology_key() -> None:
    assert _topology_keys(podcliqueset_of(SINGLE, SETTINGS)) == []


def test_d6_each_constraint_has_its_place() -> None:
    template = podcliqueset_of(DISAGGREGATED, SETTINGS)["spec"]["template"]
    assert template["topologyConstraint"] == {"packDomain": "zone"}
    cliques = {each["name"]: each.get("topologyConstraint") for each in template["cliques"]}
    assert cliques == {
        "frontend": None,
        "prefill-ldr": None,
        "prefill-wkr": None,
        "decode": {"packDomain": "host"},
    }
    groups = {each["name"]: each.get("topologyConstraint") for each in template["podCliqueScalingGroups"]}
    assert groups == {"prefill": {"packDomain": "rack"}}


def test_d11_the_topology_name_is_passed_through() -> None:
    assert podcliqueset_of(DISAGGREGATED, SETTINGS)["spec"]["template"]["clusterTopologyName"] == "h100"
    assert "clusterTopologyName" not in podcliqueset_of(LEADER_WORKER, SETTINGS)["spec"]["template"]


def test_a_fragment_replaces_the_topology_of_its_place() -> None:
    fragment = {"apiVersion": "grove.io/v1alpha1", "value": {"topologyConstraint": {"pack": {"preferred": "rack"}}}}
    multinode = {"nodeCount": 2, "worker": {"providerOverride": fragment}}
    template = podcliqueset_of(deployment("d", component("w", multinode=multinode)), SETTINGS)["spec"]["template"]
    found = {each["name"]: each.get("topologyConstraint") for each in template["cliques"]}
    assert found == {"w-ldr": None, "w-wkr": {"pack": {"preferred": "rack"}}}


@pytest.mark.parametrize("name", ["", "gb200"])
def test_d5_b4_a_set_that_another_operator_made_keeps_the_spelling_of_its_topology(name: str) -> None:
    wide = component("Decode", multinode={"nodeCount": 2}, topologyConstraint=packed("rack"))
    obj = deployment("d", component("Front", "frontend"), wide, topologyConstraint=packed("block", name))
    live = copy.deepcopy(podcliqueset_of(obj, SETTINGS))
    template = live["spec"]["template"]
    template.pop("clusterTopologyName", None)
    template["topologyConstraint"] = {**({"topologyName": name} if name else {}), "pack": {"required": "block"}}
    template["podCliqueScalingGroups"][0]["topologyConstraint"] = {"pack": {"required": "rack"}}
    assert Grove().render(obj, Observed(SETTINGS, 0.0, live), {}) == live
    template["topologyConstraint"]["pack"]["required"] = "zone"
    assert Grove().render(obj, Observed(SETTINGS, 0.0, live), {})["spec"]["template"]["topologyConstraint"] == {
        "packDomain": "block"
    }


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("qwen38max-sgl-disagg", component("a" * 13, multinode={"nodeCount": 2}), "qwen38max--d2ec"),
        ("kimi-k3-agg", component("a" * 16, multinode={"nodeCount": 2}), "kimi-3d6c"),
        ("short", component("w"), "short"),
    ],
)
def test_long_names_are_cut_and_marked(name: str, shape: Json, expected: str) -> None:
    assert generated_labels.podcliqueset(name, [shape]) == expected


def test_a_leader_of_mpi_starts_after_its_workers() -> None:
    template = podcliqueset_of(DISAGGREGATED, SETTINGS)["spec"]["template"]
    assert template["cliqueStartupType"] == "CliqueStartupTypeExplicit"
    leader = next(each for each in template["cliques"] if each["name"] == "prefill-ldr")
    assert leader["spec"]["startsAfter"] == ["prefill-wkr"]


@pytest.mark.parametrize(
    ("program", "annotations"),
    [("dynamo.trtllm", {}), ("dynamo.vllm", {"nvidia.com/vllm-distributed-executor-backend": "ray"})],
    ids=["mpi", "ray"],
)
def test_words_of_a_command_stay_words_where_a_shell_comes_between(program: str, annotations: dict[str, str]) -> None:
    wide = component("w", gpus=8, multinode={"nodeCount": 2})
    words = ["--tensor-parallel-size", "16", "--config", '{"it\'s": "a b"}']
    wide["podTemplate"]["spec"]["containers"][0] |= {"command": ["python3", "-m", program], "args": words}
    leader = podcliqueset_of(deployment("d", wide, annotations=annotations), SETTINGS)["spec"]["template"]["cliques"][0]
    (line,) = leader["spec"]["podSpec"]["containers"][0]["args"]
    read = shlex.split(line)
    assert read[read.index("python3") :][:7] == ["python3", "-m", program, *words]


def test_a_line_for_a_shell_stays_with_the_shell_of_the_user() -> None:
    wide = component("w", gpus=8, line="python3 -m dynamo.vllm -tp 16", multinode={"nodeCount": 2})
    wide["podTemplate"]["spec"]["containers"][0]["command"] = ["/bin/bash", "-c"]
    leader = _main_of(wide, {"nvidia.com/vllm-distributed-executor-backend": "ray"})
    assert leader["command"] == ["/bin/bash", "-c"]


def test_ranks_of_mpi_log_in_with_the_keys_of_the_secret_and_get_the_environment() -> None:
    wide = component("w", gpus=4, line="python3 -m dynamo.trtllm", multinode={"nodeCount": 2})
    wide["podTemplate"]["spec"]["containers"][0]["env"] = [{"name": "NCCL_DEBUG", "value": "INFO"}]
    leader, worker = podcliqueset_of(deployment("d", wide), SETTINGS)["spec"]["template"]["cliques"]
    for each in (leader, worker):
        (line,) = each["spec"]["podSpec"]["containers"][0]["args"]
        assert "cp /ssh-pk/private.key $HOME/.ssh/id_rsa" in line
        assert "cp /ssh-pk/private.key.pub $HOME/.ssh/authorized_keys" in line
    words = shlex.split(leader["spec"]["podSpec"]["containers"][0]["args"][0])
    assert words[words.index("-n") + 1] == "8"
    assert ("-x", "NCCL_DEBUG") in list(itertools.pairwise(words))
    assert words[-4:] == ["trtllm-llmapi-launch", "/bin/sh", "-c", "python3 -m dynamo.trtllm"]
    assert worker["spec"]["podSpec"]["containers"][0]["args"][0].count("sshd -D -p 2222") == 1


def _main_of(one: Json, annotations: Json | None = None) -> Json:
    """The main container of a component's first clique."""
    template = podcliqueset_of(deployment("d", one, annotations=annotations), SETTINGS)["spec"]["template"]
    main: Json = template["cliques"][0]["spec"]["podSpec"]["containers"][0]
    return main


def _pod_of(one: Json) -> Json:
    pod: Json = podcliqueset_of(deployment("d", one), SETTINGS)["spec"]["template"]["cliques"][0]["spec"]["podSpec"]
    return pod


def test_a_variable_of_the_user_is_not_given_twice() -> None:
    own = component("w", line="python3 -m dynamo.vllm", compilationCache={"pvcName": "cache", "mountPath": "/c"})
    variable = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "value": "10.0.0.1"}
    own["podTemplate"]["spec"]["containers"][0]["env"] = [variable]
    env = _main_of(own, {"nvidia.com/dynamo-operator-origin-version": "1.0.0"})["env"]
    assert [each for each in env if each["name"] == variable["name"]] == [variable]
    assert {"name": "VLLM_CACHE_ROOT", "value": "/c"} in env


@pytest.mark.parametrize(("way", "port"), [("mp", "29500"), ("ray", "6379")])
def test_workers_wait_until_their_leader_listens(way: str, port: str) -> None:
    wide = component("w", gpus=8, line="python3 -m dynamo.vllm -tp 16", multinode={"nodeCount": 2})
    obj = deployment("d", wide, annotations={"nvidia.com/vllm-distributed-executor-backend": way})
    leader, worker = podcliqueset_of(obj, SETTINGS)["spec"]["template"]["cliques"]
    (waits,) = worker["spec"]["podSpec"]["initContainers"]
    assert waits["name"] == f"wait-for-leader-{way}"
    assert {"name": "LEADER_PORT", "value": port} in waits["env"]
    assert "initContainers" not in leader["spec"]["podSpec"]
    assert any(target.name == "d-wait-leader-script" for target in services_of(obj, SETTINGS))


def test_the_executor_may_be_named_by_a_component() -> None:
    wide = component("w", gpus=8, line="python3 -m dynamo.vllm -tp 16", multinode={"nodeCount": 2})
    wide["podTemplate"]["metadata"] = {"annotations": {"nvidia.com/vllm-distributed-executor-backend": "Ray"}}
    (line,) = _main_of(wide, {"nvidia.com/dynamo-operator-origin-version": "1.0.0"})["args"]
    assert line.startswith("ray start --head")


@pytest.mark.parametrize("version", ["9" * 5000, "\u00b2", "v", "1.x"])
def test_a_version_of_origin_of_any_shape_is_read(version: str) -> None:
    wide = component("w", gpus=8, line="python3 -m dynamo.vllm -tp 16", multinode={"nodeCount": 2})
    (line,) = _main_of(wide, {"nvidia.com/dynamo-operator-origin-version": version})["args"]
    assert ("--nnodes 2" in line) == (version == "1.x")


def test_a_number_of_5_000_digits_in_a_command_is_more_than_one_node_has() -> None:
    wide = component("w", gpus=8, line=f"python3 -m dynamo.vllm -tp {'9' * 5000}", multinode={"nodeCount": 2})
    (line,) = _main_of(wide, {"nvidia.com/vllm-distributed-executor-backend": "ray"})["args"]
    assert line.startswith("ray start --head")


@pytest.mark.parametrize("words", ["python -m ", "python " * 3 + "-m " * 3, "-m dynamo.vllm ", "python3 dynamo.vllm "])
def test_a_megabyte_of_words_that_name_no_framework_is_read_in_one_pass(words: str) -> None:
    assert backend_of({"args": [words * (1_000_000 // len(words))]}) == ""


@pytest.mark.parametrize(
    ("line", "framework"),
    [
        ("python3 -m dynamo.vllm", "vllm"),
        ("python -m pip install x && python3.11 -m dynamo.sglang --tp 2", "sglang"),
        ("-m dynamo.vllm python3", ""),
        ("python3 -m dynamo.vllms", ""),
        ("python3\n-u\n-m\ndynamo.trtllm", "trtllm"),
        ("python3 -m dynamo.sglang -m dynamo.vllm", "vllm"),
    ],
)
def test_the_framework_of_a_command(line: str, framework: str) -> None:
    assert backend_of({"command": ["sh", "-c"], "args": [line]}) == framework


def test_what_the_user_mounts_is_not_mounted_over() -> None:
    own = component("w", compilationCache={"pvcName": "cache", "mountPath": "/models"})
    mounts = [{"name": "dshm", "mountPath": "/dev/shm"}, {"name": "cache", "mountPath": "/models/"}]
    own["podTemplate"]["spec"]["containers"][0]["volumeMounts"] = mounts
    own["podTemplate"]["spec"]["volumes"] = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    pod = _pod_of(own)
    assert pod["containers"][0]["volumeMounts"] == mounts
    assert pod["volumes"] == [
        {"name": "dshm", "emptyDir": {"medium": "Memory"}},
        {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
    ]


def test_a_volume_of_the_users_with_our_name_takes_the_place_of_ours() -> None:
    own = component("w")
    own["podTemplate"]["spec"]["volumes"] = [{"name": "shared-memory", "emptyDir": {"sizeLimit": "1Gi"}}]
    pod = _pod_of(own)
    assert pod["volumes"] == [{"name": "shared-memory", "emptyDir": {"sizeLimit": "1Gi"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"}]


def test_a_frontend_beside_a_worker_finds_the_models_of_the_worker() -> None:
    own = component("w", frontendSidecar="front")
    spec = own["podTemplate"]["spec"]
    spec["containers"][0]["volumeMounts"] = [
        {"name": "models", "mountPath": "/models"},
        {"name": "own", "mountPath": "/x"},
    ]
    spec["containers"].append(
        {"name": "front", "image": "f:1", "volumeMounts": [{"name": "own", "mountPath": "/elsewhere"}]}
    )
    assert _pod_of(own)["containers"][1]["volumeMounts"] == [
        {"name": "own", "mountPath": "/elsewhere"},
        {"name": "models", "mountPath": "/models"},
    ]


@pytest.mark.parametrize(
    ("given", "expected"), [(None, {"fsGroup": 1000}), ({}, None), ({"runAsUser": 0}, {"runAsUser": 0})]
)
def test_whoever_gives_a_security_context_gets_no_group_of_ours(given: Json | None, expected: Json | None) -> None:
    own = component("w")
    own["podTemplate"]["spec"]["securityContext"] = given
    assert _pod_of(own).get("securityContext") == expected


def test_a_deployment_named_like_a_model_has_services_without_dots() -> None:
    obj = deployment("qwen3-0.6b", component("Frontend", "frontend"))
    assert podcliqueset_of(obj, SETTINGS)["metadata"]["name"] == "qwen3-0-6b"
    services = {target.name for target in services_of(obj, SETTINGS) if target.resource == SERVICES}
    assert services == {"qwen3-0-6b-frontend"}


def test_scaling_changes_nothing_but_replicas() -> None:
    more = copy.deepcopy(SINGLE)
    more["spec"]["components"][1]["replicas"] = 9
    one, other = podcliqueset_of(SINGLE, SETTINGS), podcliqueset_of(more, SETTINGS)
    clique = other["spec"]["template"]["cliques"][1]["spec"]
    assert clique["replicas"] == 9
    clique["replicas"] = 2
    assert one == other


def test_what_is_scaled_where_it_lives_is_not_scaled_back() -> None:
    template = podcliqueset_of(SINGLE, SETTINGS, {"decode": 7, "frontend": 1})["spec"]["template"]
    assert [(each["name"], each["spec"]["replicas"]) for each in template["cliques"]] == [
        ("decode", 7),
        ("frontend", 1),
    ]


def test_a_scheduler_of_the_users_choice_gets_no_queue() -> None:
    own = component("w")
    own["podTemplate"]["spec"]["schedulerName"] = "mine"
    (clique,) = podcliqueset_of(deployment("d", own), SETTINGS)["spec"]["template"]["cliques"]
    assert clique["spec"]["podSpec"]["schedulerName"] == "mine"
    assert "kai.scheduler/queue" not in clique["labels"]


@pytest.mark.parametrize("strategy", ["RollingRecreate", "OnDelete"])
def test_the_update_strategy_is_named_by_an_annotation(strategy: str) -> None:
    obj = deployment("d", component("w"), annotations={"nvidia.com/grove-update-strategy": strategy})
    assert podcliqueset_of(obj, SETTINGS)["spec"]["updateStrategy"] == {"type": strategy}
    assert "updateStrategy" not in podcliqueset_of(SINGLE, SETTINGS)["spec"]


def test_an_unknown_update_strategy_is_an_error() -> None:
    obj = deployment("d", component("w"), annotations={"nvidia.com/grove-update-strategy": "Sudden"})
    with pytest.raises(BadDeployment, match="found 'Sudden', expected one of RollingRecreate, OnDelete"):
        podcliqueset_of(obj, SETTINGS)


def test_volcano_gets_its_pods_and_its_queue_on_the_set() -> None:
    obj = deployment("d", component("w"), annotations={"nvidia.com/volcano-queue": " gpus "})
    rendered = podcliqueset_of(obj, DynamoSettings(kai=False, volcano=True))
    (clique,) = rendered["spec"]["template"]["cliques"]
    assert clique["spec"]["podSpec"]["schedulerName"] == "volcano"
    assert rendered["metadata"]["annotations"] == {"scheduling.grove.io/volcano-queue": "gpus"}


def test_without_a_scheduler_of_its_own_pods_are_left_to_the_set() -> None:
    (clique,) = podcliqueset_of(deployment("d", component("w")), DynamoSettings(kai=False))["spec"]["template"][
        "cliques"
    ]
    assert "schedulerName" not in clique["spec"]["podSpec"]
    assert "kai.scheduler/queue" not in clique["labels"]


def test_the_users_own_values_win_in_the_main_container() -> None:
    own = component("f", "frontend")
    own["podTemplate"]["spec"]["containers"][0] |= {
        "command": ["serve"],
        "env": [{"name": "DYN_HTTP_PORT", "value": "1"}, {"name": "A", "value": "2"}],
    }
    (clique,) = podcliqueset_of(deployment("d", own), SETTINGS)["spec"]["template"]["cliques"]
    (main,) = clique["spec"]["podSpec"]["containers"]
    env = {each["name"]: each.get("value") for each in main["env"]}
    assert (main["command"], main["args"]) == (["serve"], ["-m", "dynamo.frontend"])
    assert (env["DYN_HTTP_PORT"], env["A"], env["DYN_NAMESPACE"]) == ("1", "2", "ml-d")
    assert list(env) == sorted(env)


_COMPONENTS = st.lists(
    st.tuples(
        st.sampled_from(["frontend", "worker", "prefill", "decode", "planner", ""]),
        st.integers(0, 8),
        st.sampled_from(["", "python3 -m dynamo.vllm -tp 16", "python3 -m dynamo.sglang", "python3 -m dynamo.trtllm"]),
        st.one_of(st.none(), st.integers(2, 4)),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(_COMPONENTS, st.sampled_from(["", "zone", "block"]))
def test_generation_is_deterministic_and_stable_under_scaling(shapes: list[Any], domain: str) -> None:
    parts = [
        component(
            f"c{index}", kind, gpus, line, replicas=replicas, **({"multinode": {"nodeCount": nodes}} if nodes else {})
        )
        for index, (kind, gpus, line, nodes, replicas) in enumerate(shapes)
    ]
    obj = deployment("d", *parts, **({"topologyConstraint": packed(domain)} if domain else {}))
    before = copy.deepcopy(obj)
    first = podcliqueset_of(obj, SETTINGS)
    assert podcliqueset_of(obj, SETTINGS) == first
    assert obj == before
    scaled = copy.deepcopy(obj)
    for part in scaled["spec"]["components"]:
        part["replicas"] += 1
    second = podcliqueset_of(scaled, SETTINGS)
    assert _without_replicas(second) == _without_replicas(first)
    assert bool(_topology_keys(first)) == bool(domain)


def _without_replicas(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_replicas(one) for key, one in value.items() if key != "replicas"}
    return [_without_replicas(one) for one in value] if isinstance(value, list) else value


def _topology_keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [key for key in value if "opology" in key or key == "packDomain"]
        return own + [key for one in value.values() for key in _topology_keys(one)]
    return [key for one in value for key in _topology_keys(one)] if isinstance(value, list) else []
