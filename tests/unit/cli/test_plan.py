"""`spinney plan`: would it fit, where, why not, how many copies; against described clusters, as in a pipe (B1, K15)"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from spinney.cli.main import cli
from spinney.core.view.plan_result import PlanResult
from spinney.whatif import run as plan_placing
from spinney.whatif.expected import workloads
from spinney.whatif.expected.expected_pods import BadTemplate, Registry
from spinney.whatif.inputs.manifests import Manifest
from spinney.whatif.inputs.nodes import load_nodes
from spinney.whatif.inputs.operator_settings import read_configuration
from spinney.whatif.inputs.snapshot import described
from spinney.whatif.request import PlanRequest, prepare_plan

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
EXAMPLES, GOLDEN = Path("examples"), ROOT / "tests" / "golden" / "cli" / "plan"
LAPTOP = ("--nodes", str(EXAMPLES / "nodes" / "laptop.yaml"))
GPU = "nvidia.com/gpu"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
KAI = "kai.scheduler"


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in output are those that were typed."""
    monkeypatch.chdir(ROOT)


def run(*arguments: str, text: str | None = None, columns: str | None = None) -> Result:
    env = {"COLUMNS": columns, "NO_COLOR": None, "KUBECONFIG": "/nowhere/at/all"}
    return CliRunner().invoke(cli, ["plan", *arguments], input=text, env=env)


def asked(*manifests: Json, more: tuple[str, ...] = ()) -> Json:
    """The answer for the default sixteen nodes: two blocks of two racks of four, eight GPUs each."""
    result = run("-f", "-", *LAPTOP, "-o", "json", *more, text=yaml.safe_dump_all(manifests))
    assert result.exit_code in (0, 1), result.output
    found: Json = json.loads(result.stdout)
    return found


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("SPINNEY_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def clique(name: str = "work", pods: int = 4, gpus: int = 8, **more: Any) -> Json:
    spec = {"roleName": name, "replicas": pods, "podSpec": pod_spec(gpus), **more.pop("spec", {})}
    return {"name": name, "spec": spec, **more}


def podcliqueset(name: str, *cliques: Json, replicas: int = 1, **template: Any) -> Json:
    spec = {"replicas": replicas, "template": {"cliques": list(cliques), **template}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": spec}


def pod_spec(gpus: int = 8, **more: Any) -> Json:
    return {"containers": [{"name": "main", "image": "work", "resources": {"limits": {GPU: str(gpus)}}}], **more}


def pod(name: str, gpus: int = 8, group: str = "", **spec: Any) -> Json:
    metadata = {"name": name, "annotations": {"pod-group-name": group} if group else {}}
    body = pod_spec(gpus, schedulerName="kai-scheduler", **spec)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def podgroup(name: str, minimum: int, **spec: Any) -> Json:
    body = {"minMember": minimum, "queue": "default-queue", **spec}
    kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name}, "spec": body}


def job(name: str, pods: int, level: str = "rack", **spec: Any) -> Json:
    notes = {f"{KAI}/topology": "grove-topology", f"{KAI}/topology-required-placement": level}
    body = {"parallelism": pods, "template": {"spec": pod_spec(restartPolicy="Never")}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": notes}, "spec": body}


def gangs(found: Json) -> list[Json]:
    return [gang for workload in found["workloads"] for gang in workload["gangs"]]


def verdicts(found: Json) -> list[tuple[str, str, int]]:
    return [(gang["gang"], gang["verdict"], gang["placed"]) for gang in gangs(found)]


DISAGGREGATED = ("-f", str(EXAMPLES / "sets" / "disaggregated.yaml"), *LAPTOP)
TOO_LARGE = yaml.safe_dump(podcliqueset("wide", clique(pods=5, topologyConstraint={"packDomain": "rack"})))


# What people see


def test_b1_a_set_that_fits_is_shown_with_its_gangs_domains_nodes_and_scores() -> None:
    found = run(*DISAGGREGATED)
    assert (found.exit_code, found.stderr) == (0, "")
    check("fits.txt", found.stdout)


def test_b1_a_set_that_does_not_fit_is_shown_with_why_and_what_would_fit() -> None:
    found = run("-f", "-", *LAPTOP, text=TOO_LARGE)
    assert (found.exit_code, found.stderr) == (1, "")
    check("does-not-fit.txt", found.stdout)


def test_k15_the_json_of_a_refusal_has_level_best_domains_and_counterfactuals() -> None:
    found = run("-f", "-", *LAPTOP, "-o", "json", text=TOO_LARGE)
    check("does-not-fit.json", found.stdout)
    told = json.loads(found.stdout)["workloads"][0]["gangs"][0]["explanation"]
    assert (told["level"], told["best"][0]["holds"]) == ("topology.kubernetes.io/rack", 4)
    assert {"count": 4} in told["fitsIf"]


def test_yaml_says_the_same_as_json() -> None:
    answers = [run(*DISAGGREGATED, "-o", output).stdout for output in ("json", "yaml")]
    assert json.loads(answers[0]) == yaml.safe_load(answers[1])


def test_b1_as_many_copies_as_fit_with_what_stops_the_next_one() -> None:
    found = run("-f", str(EXAMPLES / "sets" / "single-clique.yaml"), *LAPTOP, "--copies", "max")
    assert found.exit_code == 0
    check("copies-max.txt", found.stdout)


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_lines_are_no_wider_than_the_screen(columns: str) -> None:
    for answer in (run("-f", "-", *LAPTOP, text=TOO_LARGE, columns=columns), run(*DISAGGREGATED, columns=columns)):
        assert max(map(len, answer.stdout.splitlines())) <= int(columns)


@pytest.mark.parametrize(("variable", "colored"), [("NO_COLOR", False), ("UNRELATED", True)])
def test_colours_are_for_terminals_only_and_never_with_no_color(variable: str, colored: bool) -> None:
    leader, follower = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment |= {"TERM": "xterm", "COLUMNS": "80", variable: "1"}
    command = [sys.executable, "-m", "spinney.cli.main", "plan", *DISAGGREGATED]
    process = subprocess.Popen(command, stdout=follower, env=environment, cwd=ROOT)
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    assert process.wait() == 0
    assert (b"\x1b[" in shown) is colored


# What is asked


def test_scaled_gangs_are_told_after_their_base_and_share_its_domain() -> None:
    """G12: group replicas above the minimum are gangs of their own, tied to the domain of the set."""
    group = {"name": "grp", "cliqueNames": ["work"], "replicas": 3, "minAvailable": 1}
    block = {"packDomain": "block"}
    made = podcliqueset("llm", clique(pods=4), podCliqueScalingGroups=[group], topologyConstraint=block)
    found = asked(made)
    assert verdicts(found) == [
        ("default/llm-0", "fits", 4),
        ("default/llm-0-grp-0", "fits", 4),
        ("default/llm-0-grp-1", "no", 0),
    ]
    domains = [gang["groups"][0]["domain"][:2] for gang in gangs(found)[:2]]
    assert domains[0] == domains[1]


def test_a_scaled_gang_keeps_its_gate_while_its_base_has_no_nodes() -> None:
    group = {"name": "grp", "cliqueNames": ["work"], "replicas": 2, "minAvailable": 1}
    block = {"packDomain": "block"}
    found = asked(podcliqueset("llm", clique(pods=9), podCliqueScalingGroups=[group], topologyConstraint=block))
    base, scaled = gangs(found)
    assert (base["verdict"], base["state"]) == ("no", "Unschedulable")
    assert (scaled["verdict"], scaled["state"]) == ("no", "NotReady")
    assert scaled["lines"] == ["9 of its 9 pods are gated"]


def test_pods_beyond_the_minimum_that_find_no_room_do_not_make_it_a_no() -> None:
    found = asked(podcliqueset("big", clique(pods=20, spec={"minAvailable": 2})))
    assert verdicts(found) == [("default/big-0", "partly", 16)]
    assert found["fits"] is True


def test_all_three_shapes_of_a_deployment_give_the_same_gangs() -> None:
    container = {"name": "main", "image": "example.com/vllm:1", "resources": {"limits": {GPU: "8"}}}
    component = {
        "name": "Worker",
        "type": "worker",
        "replicas": 2,
        "podTemplate": {"spec": {"containers": [container]}},
    }
    service = {"componentType": "worker", "replicas": 2, "resources": {"limits": {"gpu": "8"}}}
    service["extraPodSpec"] = {"mainContainer": {"image": "example.com/vllm:1"}}
    specs: dict[str, list[Json]] = {
        "v1beta1": [{"components": [component]}],
        "v1alpha1": [{"services": {"Worker": service}}, {"services": [{"name": "Worker", **service}]}],
    }
    kind = {"kind": "DynamoGraphDeployment", "metadata": {"name": "graph"}}
    answers = [
        verdicts(asked({"apiVersion": f"nvidia.com/{version}", **kind, "spec": {"backendFramework": "vllm", **spec}}))
        for version, found in specs.items()
        for spec in found
    ]
    assert answers == [[("default/graph-0", "fits", 2)]] * 3


def test_a_deployment_whose_queue_is_missing_is_told_so_as_its_status_would() -> None:
    manifest = yaml.safe_load((EXAMPLES / "dynamo" / "vllm-aggregated.yaml").read_text())
    manifest["metadata"]["annotations"] = {"nvidia.com/kai-scheduler-queue": "nobodys"}
    found = asked(manifest)
    assert "queue 'nobodys' not found in cluster" in found["workloads"][0]["refusals"][0]


@pytest.mark.parametrize(
    ("example", "count", "pods"),
    [
        ("job.yaml", 1, 8),
        ("jobset.yaml", 1, None),
        ("leader-worker-set.yaml", None, None),
        ("mpijob.yaml", 1, None),
        ("pytorchjob.yaml", 1, None),
        ("raycluster.yaml", 1, None),
    ],
)
def test_other_owners_of_pods_become_the_gangs_that_they_are_grouped_into(
    example: str, count: int | None, pods: int | None
) -> None:
    topologies = list(yaml.safe_load_all((EXAMPLES / "topologies" / "gb200.yaml").read_text()))
    text = (EXAMPLES / "workloads" / example).read_text().replace("grove-topology", "gb200")
    manifests = list(yaml.safe_load_all(text))
    nodes = ("--nodes", str(EXAMPLES / "nodes" / "gb200.yaml"))
    result = run("-f", "-", *nodes, "-o", "json", text=yaml.safe_dump_all([*topologies, *manifests]))
    found = json.loads(result.stdout)
    assert found["workloads"][0]["refusals"] == []
    assert count is None or len(gangs(found)) == count
    assert pods is None or gangs(found)[0]["asked"] == pods
    assert all(gang["asked"] > 0 for gang in gangs(found))


def test_pods_and_their_podgroup_are_one_gang() -> None:
    found = asked(*(pod(f"a-{number}", group="a") for number in range(3)), podgroup("a", 3))
    assert [workload["kind"] for workload in found["workloads"]] == ["PodGroup"]
    assert verdicts(found) == [("default/a", "fits", 3)]


def test_a_gang_with_too_few_pods_waits_in_the_words_of_the_scheduler() -> None:
    found = asked(pod("a-0", group="a"), podgroup("a", 3))
    assert gangs(found)[0]["lines"] == [
        "Job is not ready for scheduling. Waiting for 3 pods, currently 1 exist, 0 are gated"
    ]


def test_a_pod_that_names_no_podgroup_there_is_says_so() -> None:
    found = asked(pod("a-0", group="nowhere"))
    assert found["workloads"][0]["refusals"] == ["PodGroup default/nowhere does not exist"]


def test_what_is_refused_is_refused_in_the_words_of_validate(tmp_path: Path) -> None:
    manifest = yaml.safe_dump(podcliqueset("bad", clique(), topologyConstraint={"packDomain": "datacenter"}))
    config = {"scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]}}
    config["topologyAwareScheduling"] = {"enabled": True, "levels": [{"domain": "rack", "key": "example.com/rack"}]}  # type: ignore[dict-item]
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    told = ("--config", str(tmp_path / "config"), "-o", "json")
    planned = json.loads(run("-f", "-", *LAPTOP, *told, text=manifest).stdout)
    command = ["validate", "-f", "-", *told]
    judged = json.loads(CliRunner().invoke(cli, command, input=manifest).stdout)
    assert planned["workloads"][0]["refusals"] == [one["message"] for one in judged[0]["errors"]]
    assert planned["fits"] is False


# What counts as being there


def test_nodes_classes_and_queues_among_the_manifests_are_part_of_the_world() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "big", "labels": {"size": "big"}}}
    node["status"] = {"capacity": {GPU: "64", "cpu": "8", "memory": "8Gi", "pods": "10"}}
    assert gangs(asked(node, pod("a", 64)))[0]["pods"][0]["node"] == "big"
    assert asked(pod("a", 64))["fits"] is False


def test_a_queue_that_is_full_says_no_as_the_scheduler_does() -> None:
    limits = {"gpu": {"quota": -1, "limit": 8}, "cpu": {"quota": -1, "limit": -1}, "memory": {"quota": -1, "limit": -1}}
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "small"}}
    queue["spec"] = {"parentQueue": "default-parent-queue", "resources": limits}
    found = asked(queue, *(pod(f"a-{number}", group="a") for number in range(2)), podgroup("a", 2, queue="small"))
    assert (gangs(found)[0]["state"], gangs(found)[0]["verdict"]) == ("QueueRefused", "no")


def test_pods_that_run_take_their_room_and_may_be_evicted_for_more_important_ones() -> None:
    klass = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}
    names = [node["metadata"]["name"] for node in load_nodes()]
    running = [pod(f"old-{number}", group="old", nodeName=name) for number, name in enumerate(names)]
    world = [klass, podgroup("old", 1), *running]
    weak = asked(*world, pod("a", group="a"), podgroup("a", 1))
    strong = asked(*world, pod("a", group="a"), podgroup("a", 1, priorityClassName="high"))
    new = [next(gang for gang in gangs(found) if gang["gang"] == "default/a") for found in (weak, strong)]
    assert [gang["verdict"] for gang in new] == ["no", "fits"]
    assert [leaver["gang"] for leaver in new[1]["leavers"]] == ["default/old"]


def test_b1_pods_that_are_evicted_and_made_anew_take_room_before_others_that_wait() -> None:
    """The important gang takes the larger of two nodes; both pods of the gang that ran there go to the smaller one."""
    capacity = {"large": {GPU: "8", "pods": "9"}, "small": {GPU: "5", "pods": "9"}}
    nodes = [
        {"metadata": {"name": name, "labels": {"pool": "p"}}, "status": {"capacity": each}}
        for name, each in capacity.items()
    ]
    klass = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}
    old = [
        pod(f"old-{at}", gpus, "old", nodeName=at, nodeSelector={"pool": "p"})
        for at, gpus in (("large", 1), ("small", 4))
    ]
    strong, later = pod("a", 8, "a", nodeSelector={"pool": "p"}), pod("z", 4, "z", nodeSelector={"pool": "p"})
    groups = podgroup("old", 2), podgroup("a", 1, priorityClassName="high"), podgroup("z", 1)
    for owners, verdict in (([], "fits"), ([OWNER], "no")):
        for each in old:
            each["metadata"]["ownerReferences"] = owners
        made = [{"apiVersion": "v1", "kind": "Node", **node} for node in nodes]
        found = asked(*made, klass, *groups, *old, strong, later)
        verdicts = {gang["gang"]: gang["verdict"] for gang in gangs(found)}
        assert (verdicts["default/a"], verdicts["default/z"]) == ("fits", verdict)


def test_a_gang_fits_where_the_scheduler_would_move_others() -> None:
    """One small pod on each of two nodes of one rack: moved together they leave a whole node."""
    nodes = [{"metadata": {"name": name}, "status": {"capacity": {GPU: "8", "pods": "9"}}} for name in ("x", "y")]
    made = [{"apiVersion": "v1", "kind": "Node", **node} for node in nodes]
    for node in made:
        node["metadata"]["labels"] = {"pool": "p"}  # type: ignore[index]
    running = [pod(f"s-{at}", 4, f"s-{at}", nodeName=at, nodeSelector={"pool": "p"}) for at in ("x", "y")]
    for each in running:
        each["metadata"]["ownerReferences"] = [OWNER]
    world = [*made, *running, podgroup("s-x", 1), podgroup("s-y", 1)]
    found = asked(*world, pod("a", 8, "a", nodeSelector={"pool": "p"}), podgroup("a", 1))
    waiting = next(gang for gang in gangs(found) if gang["gang"] == "default/a")
    assert waiting["verdict"] == "fits"
    (moved,) = [each for value in waiting.values() if isinstance(value, list) for each in value if "to" in each]
    assert {moved["node"], moved["to"]} == {"x", "y"}


def test_a_volume_that_is_not_there_keeps_a_pod_waiting() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    found = asked(pod("a", volumes=[volume]))
    assert found["fits"] is False
    assert "nowhere" in " ".join(gangs(found)[0]["lines"])


def test_claims_of_a_stateful_set_are_made_with_its_pods() -> None:
    klass = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
    klass |= {"provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"}
    wanted = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = {"metadata": {"name": "data"}, "spec": wanted}
    labels = {"app": "db"}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    spec = {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": labels}, "template": template}
    spec["volumeClaimTemplates"] = [claim]
    found = asked(klass, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
    assert [gang["placed"] for gang in gangs(found)] == [2]


def test_what_makes_no_pods_is_left_out_and_named() -> None:
    found = asked({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, pod("a"))
    assert found["notes"] == ["left out, for their kinds are not planned: ConfigMap c"]


def test_pods_of_another_scheduler_are_not_looked_at() -> None:
    found = asked({**pod("a"), "spec": pod_spec(schedulerName="volcano")})
    assert found["notes"] == ["pods for the scheduler volcano are not looked at"]


# How many


def test_copies_are_placed_one_after_the_other() -> None:
    found = asked(
        podcliqueset("llm", clique(pods=4, topologyConstraint={"packDomain": "rack"})), more=("--copies", "5")
    )
    copies = found["copies"]
    assert (copies["asked"], copies["fitting"], found["fits"]) == (5, 4, False)
    assert copies["blockedBy"]["gang"] == "default/llm-5-0"
    assert "It would fit" not in copies["blockedBy"]["lines"]


def test_copies_of_pods_with_a_podgroup_are_gangs_of_their_own() -> None:
    found = asked(*(pod(f"a-{number}", group="a") for number in range(4)), podgroup("a", 4), more=("--copies", "max"))
    assert (found["copies"]["asked"], found["copies"]["fitting"], found["fits"]) == ("max", 4, True)


def test_a_search_for_as_many_as_fit_has_an_end_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_placing, "MOST_COPIES", 5)
    found = asked(pod("a", gpus=0), more=("--copies", "max"))
    assert (found["copies"]["fitting"], found["copies"]["bound"]) == (5, "stopped at 5 copies")


def test_none_fits_where_not_even_the_first_does() -> None:
    found = asked(job("wide", 5), more=("--copies", "max"))
    assert (found["copies"]["fitting"], found["fits"]) == (0, False)


# What goes wrong


def sentence(result: Result) -> str:
    """The one line on standard error, and exit status 2."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("spinney plan: ") and result.stderr.count("\n") == 1
    return result.stderr.removeprefix("spinney plan: ").strip()


def test_a_file_that_is_not_there_or_no_manifest_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    (tmp_path / "list").write_text("- 1")
    (tmp_path / "broken").write_text("a: [")
    (tmp_path / "empty").write_text("")
    (tmp_path / "bare").write_text("a: 1")
    said = {
        name: sentence(run("-f", str(tmp_path / name), *LAPTOP))
        for name in ("no", "binary", "list", "broken", "empty", "bare")
    }
    text = "\n".join(f"{name}: {words.replace(str(tmp_path), '<dir>')}" for name, words in said.items()) + "\n"
    check("wrong-files.txt", text)


def test_a_server_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "clusters": [cluster],
        "contexts": [context],
        "current-context": "c",
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
    said = sentence(run("-f", str(EXAMPLES / "job.yaml"), "--kubeconfig", str(path)))
    check("dead-server.txt", said.replace(str(port), "<port>") + "\n")


def test_nodes_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("levels: 3")
    (tmp_path / "binary").write_bytes(b"a: \xff")
    said = {
        name: sentence(run("-f", str(EXAMPLES / "job.yaml"), "--nodes", str(tmp_path / name)))
        for name in ("nodes", "binary", "")
    }
    assert "levels" in said["nodes"]
    assert said["binary"] == f"{tmp_path}/binary: is not UTF-8 text: invalid start byte at byte 3"
    assert said[""] == f"{tmp_path}: cannot be read: Is a directory"


def test_of_a_directory_the_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff")
    assert sentence(run("-f", str(tmp_path), *LAPTOP)).startswith(f"{tmp_path}/binary.yaml: is not UTF-8 text")


@pytest.mark.parametrize("copies", ["0", "-1", "many", "10001"])
def test_copies_are_a_number_or_max(copies: str) -> None:
    result = run("-f", str(EXAMPLES / "job.yaml"), *LAPTOP, "--copies", copies)
    assert (result.exit_code, "expected max or a number from 1 to 10000" in result.stderr) == (2, True)


def test_one_cluster_is_asked_about() -> None:
    result = run("-f", "-", *LAPTOP, "--kubeconfig", "x")
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)


def test_names_that_would_steer_a_terminal_are_shown_harmless() -> None:
    manifest = pod("a")
    manifest["spec"]["schedulerName"] = "evil\x1b[2J"
    shown = run("-f", "-", *LAPTOP, text=yaml.safe_dump(manifest)).stdout
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"spec": 3},
        {"spec": {"template": []}},
        {"spec": {"parallelism": "many", "template": {"spec": pod_spec()}}},
        {"spec": {"template": {"spec": {"containers": "none"}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "x", "resources": {"limits": {GPU: {}}}}]}}}},
        {"spec": {"template": {"metadata": 7, "spec": pod_spec()}}},
        {"metadata": {"name": "a", "annotations": {"b": 3}}, "spec": {"template": {"spec": pod_spec()}}},
    ],
)
def test_a_manifest_of_the_wrong_shape_is_told_and_never_a_traceback(wrong: Json) -> None:
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, **wrong}
    result = run("-f", "-", *LAPTOP, text=yaml.safe_dump(manifest))
    assert result.exit_code in (1, 2), result.output
    assert isinstance(result.exception, SystemExit)


def refusals(*manifests: Json) -> list[str]:
    return [said for workload in asked(*manifests)["workloads"] for said in workload["refusals"]]


@pytest.mark.parametrize("name", ["a" * 254, "Name", "a b", "\u00fcber"])
def test_b1_a_name_that_no_server_takes_is_refused(name: str) -> None:
    assert [said for said in refusals(job(name, 1)) if said.startswith("metadata.name: Invalid value")]
    assert [said for said in refusals(pod(name)) if said.startswith("metadata.name: Invalid value")]


def test_b1_a_job_is_judged_by_the_rules_of_the_server() -> None:
    always = job("a", 1, template={"spec": pod_spec(restartPolicy="Always")})
    assert refusals(always) == ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']


@pytest.mark.parametrize(
    "manifest",
    [
        job("many", 10**11),
        podcliqueset("many", clique(pods=60_000)),
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "many"},
            "spec": {
                "headGroupSpec": {"template": {"spec": pod_spec(0)}},
                "workerGroupSpecs": [{"replicas": 40000, "numOfHosts": 40000, "template": {"spec": pod_spec()}}],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "many"},
            "spec": {
                "replicas": 10**9,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()},
            },
        },
    ],
    ids=["Job", "PodCliqueSet", "RayCluster", "ReplicaSet"],
)
def test_more_pods_than_anybody_has_are_refused_before_they_are_made(manifest: Json) -> None:
    (said,) = refusals(manifest)
    assert said.startswith(f"{manifest['kind']} many: ")
    assert "50000" in said


def _kubeflow_roles() -> Json:
    role = {"replicas": 50_000, "template": {"spec": pod_spec()}}
    spec = {"pytorchReplicaSpecs": {f"Role{n}": role for n in range(100)}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "roles"}, "spec": spec}


def _jobs_without_pods() -> Json:
    none = {"spec": {"parallelism": 0, "template": {"spec": pod_spec()}}}
    jobs = [{"name": f"j{n}", "replicas": 50_000, "template": none} for n in range(100)]
    spec = {"replicatedJobs": jobs}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "idle"}, "spec": spec}


@pytest.mark.parametrize("manifest", [_kubeflow_roles(), _jobs_without_pods()], ids=["PyTorchJob", "JobSet"])
def test_what_multiplies_inside_one_manifest_is_counted_while_it_is_made(manifest: Json) -> None:
    registry = Registry(most_pods=100)
    with pytest.raises(BadTemplate, match="expected no more than 100, the most that are planned"):
        workloads.expected_pods_of({**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}, registry)
    assert int(registry.uid().rpartition("-")[2]) < 1000


def bounded(*manifests: Json, most_pods: int, copies: int = 1) -> PlanResult:
    given = [Manifest("file", {**one, "metadata": {"namespace": "default", **one["metadata"]}}) for one in manifests]
    question = PlanRequest(given, copies, most_pods=most_pods)
    snapshot = described(load_nodes(), read_configuration(None), "default nodes")

    async def answered() -> PlanResult:
        return (await prepare_plan(question, snapshot)).answer()

    return asyncio.run(answered())


def test_all_manifests_together_ask_for_no_more_pods_than_are_planned() -> None:
    """Each would be planned alone; what comes later is refused beside what came before it."""
    told = bounded(job("first", 6), job("second", 6), podcliqueset("third", clique(pods=6)), most_pods=10)
    beside = "found 6 pods beside 6 of other manifests or copies, expected no more than 10, the most that are planned"
    assert [workload.refusals for workload in told.workloads] == [
        (),
        (f"Job second: {beside}",),
        (f"PodCliqueSet third: {beside}",),
    ]


def test_copies_end_at_the_most_pods_that_are_planned() -> None:
    told = bounded(podcliqueset("one", clique(pods=6, gpus=1)), copies=5000, most_pods=20).copies
    assert told is not None
    assert (told.asked, told.fitting, told.bound) == (5000, 3, "stopped at 18 pods")


def test_a_kind_of_ours_that_is_misspelt_is_refused_and_not_left_out() -> None:
    small = {**podcliqueset("a", clique()), "kind": "Podcliqueset"}
    newer = {**podcliqueset("b", clique()), "apiVersion": "grove.io/v2"}
    assert refusals(small, newer) == [
        'kind: Unsupported value: "Podcliqueset": supported values: "PodCliqueSet"',
        'apiVersion: Unsupported value: "grove.io/v2": supported values: "grove.io/v1alpha1"',
    ]


def test_manifests_of_which_none_makes_pods_are_one_sentence() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    said = sentence(run("-f", "-", *LAPTOP, text=yaml.safe_dump(widget)))
    assert said.startswith("example.com/v1 Widget w: found nothing to plan, expected a PodCliqueSet, ")


def test_a_namespace_that_is_no_text_or_no_name_is_told(tmp_path: Path) -> None:
    manifest = pod("a")
    manifest["metadata"]["namespace"] = 5
    said = sentence(run("-f", "-", *LAPTOP, text=yaml.safe_dump(manifest)))
    assert said == "standard input, document 1: metadata.namespace: found 5, expected a text"
    result = run("-f", str(EXAMPLES / "job.yaml"), *LAPTOP, "-n", "Not Valid")
    assert (result.exit_code, "found 'Not Valid', expected the name of a namespace" in result.stderr) == (2, True)


def test_standard_input_that_is_no_text_is_one_sentence() -> None:
    command = [sys.executable, "-m", "spinney.cli.main", "plan", "-f", "-", *LAPTOP]
    done = subprocess.run(command, input=b"\xff\xfe", capture_output=True, check=False)
    said = b"spinney plan: standard input: is not UTF-8 text: invalid start byte at byte 0\n"
    assert (done.returncode, done.stderr) == (2, said)


def shared_queue(name: str, quota: int) -> Json:
    shares: Json = {each: {"quota": -1, "limit": -1} for each in ("cpu", "memory")}
    shares["gpu"] = {"quota": quota, "overQuotaWeight": 1, "limit": -1}
    spec = {"resources": shares, "reclaimMinRuntime": "0s"}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def borrowers(quota: int = 64, **more: Any) -> list[Json]:
    """Queue a holds all 128 GPUs with two gangs; queue b has the other half of the quota."""
    names = [node["metadata"]["name"] for node in load_nodes()]
    running = [pod(f"old-{number}", group=f"old{number // 8}", nodeName=name) for number, name in enumerate(names)]
    held = [podgroup(f"old{number}", 8, queue="a", **more) for number in range(2)]
    return [shared_queue("a", quota), shared_queue("b", 64), *held, *running]


def test_q9_a_plan_says_what_another_queue_would_have_to_give_back_and_why() -> None:
    taker = [*(pod(f"new-{number}", group="new") for number in range(8)), podgroup("new", 8, queue="b")]
    found = asked(*borrowers(), *taker)
    new = next(gang for gang in gangs(found) if gang["gang"] == "default/new")
    assert new["verdict"] == "fits"
    assert {(one["gang"], one["queue"]) for one in new["leavers"]} == {("default/old1", "a")}
    assert len(new["leavers"]) == 8
    assert new["leavers"][0]["why"] == (
        f"Pod {new['leavers'][0]['pod']} was preempted by workload new. "
        "Queue b gets 64 GPUs of a fair share of 64 GPUs and a quota of 64 GPUs; "
        "queue a keeps 64 GPUs of a fair share of 64 GPUs and a quota of 64 GPUs"
    )
    text = yaml.safe_dump_all([*borrowers(), *taker])
    shown = " ".join(run("-f", "-", *LAPTOP, text=text, columns="200").stdout.split())
    assert "evicted for it from queue a: default/old-" in shown
    assert shown.count("Queue b gets 64 GPUs of a fair share of 64 GPUs") == 1


def test_q9_a_plan_says_why_nothing_is_given_back() -> None:
    taker = [*(pod(f"new-{number}", group="new") for number in range(9)), podgroup("new", 9, queue="b")]
    found = asked(*borrowers(), *taker)
    new = next(gang for gang in gangs(found) if gang["gang"] == "default/new")
    assert (new["verdict"], new["leavers"]) == ("no", [])
    held = "it would hold 72 GPUs of a fair share of 64 GPUs and a quota of 64 GPUs"
    assert f"Queue b takes nothing from other queues: {held}" in " ".join(new["lines"])
    promised = asked(*borrowers(quota=128), *taker[:1], podgroup("new", 1, queue="b"))
    new = next(gang for gang in gangs(promised) if gang["gang"] == "default/new")
    assert (new["verdict"], len(new["leavers"])) == ("fits", 8), "a quota that does not fit is cut"
