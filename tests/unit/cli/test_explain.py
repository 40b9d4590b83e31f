"""`spinney explain`: why a gang waits, or where it is, from what the objects say (K15)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from kube_embedded.base.identity import AUTHENTICATED, Identity
from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.crds import all_crds
from spinney.api.kinds.podgroup import PodGroup
from spinney.cli.commands import explain as command
from spinney.cli.main import cli
from spinney.cli.options import Screen
from spinney.cli.render.explanation import shown
from spinney.core.scheduling.reporting.report import encode
from spinney.core.view.explanation import Levels, WorkloadExplanation, explain_gang, lone_pod
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ConfigError
from spinney.sim.event_loop import Sim, run
from spinney.sim.stack import Parts
from spinney.sim.transport import InProcessTransport
from spinney.sim.world import World
from spinney.whatif.workloads import WorkloadNotFound, find, read_explanation
from unit.placement.refusal_kit import BLOCK, RACK, gang, nodes, pods
from unit.scheduling.reporting_kit import told

Json = dict[str, Any]
LEVELS = {"net": Levels((BLOCK, RACK), {BLOCK: "block", RACK: "rack"})}
ASKED = {"topology": "net", "requiredTopologyLevel": RACK}


def group(name: str = "a", **more: Any) -> Json:
    metadata = {"name": name, "namespace": "ns", **more.pop("metadata", {})}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"queue": "default-queue", "topologyConstraint": ASKED, **more.pop("spec", {})},
        **more,
    }


def pod(name: str, node: str = "", of: str = "a", **more: Any) -> Json:
    notes = ({"pod-group-name": of} if of else {}) | more.pop("annotations", {})
    metadata = {"name": name, "namespace": "ns", "annotations": notes} | more.pop("metadata", {})
    spec = {"containers": [{"name": "main", "image": "work"}], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **more}


def member(name: str, part: str, at: str, rank: str) -> Json:
    labels = {"labels": {"kai.scheduler/subgroup-name": part}}
    return pod(name, at, metadata=labels, annotations={"spinney.dev/rank": rank})


def node(name: str, where: str) -> Json:
    labels = dict(zip((BLOCK, RACK), where.split("/"), strict=True))
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def refused(free: dict[str, list[int]] | None = None) -> Json:
    """A PodGroup as the scheduler leaves it when the gang does not fit."""
    there = nodes(free or {"b0/r0": [8, 8], "b0/r1": [8], "b1/r2": [4]})
    found = told(there, gang("ns/a", required=RACK, pods=[pods("w", 3, 8)]))
    assert found.explanation is not None and found.condition is not None
    notes = {"annotations": {"spinney.dev/explanation": encode(found.explanation)}}
    return group(metadata=notes, status={"schedulingConditions": [{**found.condition, "transitionID": "1"}]})


def story(of: Json, members: Sequence[Json], there: Sequence[Json] = ()) -> WorkloadExplanation:
    read = [msgspec.convert(each, Pod) for each in members]
    known = {each["metadata"]["name"]: msgspec.convert(each, Node) for each in there}
    return WorkloadExplanation(
        "PodGroup", "ns", "a", (explain_gang(msgspec.convert(of, PodGroup), read, known, LEVELS),)
    )


def test_k15_a_gang_that_waits() -> None:
    waiting = [pod(f"w-{at}") for at in range(3)]
    assert shown(story(refused(), waiting)).splitlines() == [
        "PodGroup ns/a waits",
        "",
        "ns/a  Unschedulable",
        "  0 of 3 pods bound, queue default-queue, topology net",
        "",
        "  topology net, requirement example.com/rack couldn't be satisfied for job ns/a.",
        "  The gang needs 3 pods in one example.com/rack; no more than 2 fit into an",
        "    empty example.com/rack; the best of 3, b0/r0, holds 2, short of 8",
        "    nvidia.com/gpu.",
        "  It would fit in one example.com/block or with 2 pods.",
        "",
        "  RACK    HOLDS    SHORT OF",
        "  b0/r0   2 of 3   8 nvidia.com/gpu",
        "  b0/r1   1 of 3   16 nvidia.com/gpu",
        "  b1/r2   0 of 3   20 nvidia.com/gpu",
        "",
        "  blocked: 1 node insufficient nvidia.com/gpu",
    ]


def test_k15_a_lost_or_cordoned_node_is_told_of_a_gang_that_runs_there() -> None:
    there = [node(name, "b0/r0") for name in ("n0", "n1", "n2")]
    there[0] |= {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "T"}]}}
    there[1] |= {"spec": {"unschedulable": True}}
    there[2] |= {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    told = story(group(), [pod("w-0", "n0"), pod("w-1", "n0"), pod("w-2", "n1"), pod("w-3", "n2")], there)
    assert told.gangs[0].lines == (
        "2 of its pods run on node n0, which is not ready since T",
        "1 of its pods runs on node n1, which is cordoned",
    )


def test_k15_the_time_of_a_reason_is_shown_with_it() -> None:
    reported = encode({"version": 1, "state": "Unschedulable", "lines": ["no room"], "at": "2026-01-01T12:00:00Z"})
    old = group(metadata={"annotations": {"spinney.dev/explanation": reported}})
    assert "topology net, as of\n    2026-01-01T12:00:00Z" in shown(story(old, [pod("w-0")]))


def test_k15_a_gang_that_is_placed() -> None:
    parts = {"subGroups": [{"name": "lead", "minMember": 1}, {"name": "work", "minMember": 2}]}
    parts |= {"topologyConstraint": {"topology": "net", "requiredTopologyLevel": BLOCK}}  # type: ignore[dict-item]
    placed = group(spec=parts, metadata={"annotations": {"spinney.dev/placement-score": "0.8750"}})
    there = [node("n0", "b0/r0"), node("n1", "b0/r0"), node("n2", "b0/r1")]

    members = [
        member("lead-0", "lead", "n0", "0"),
        member("work-1", "work", "n1", "1"),
        member("work-0", "work", "n2", "2"),
    ]
    assert shown(story(placed, members, there)).splitlines() == [
        "PodGroup ns/a is placed",
        "",
        "ns/a  Scheduled",
        "  3 of 3 pods bound, score 0.88, queue default-queue, topology net",
        "",
        "  GROUP          LEVEL   DOMAIN   PODS   NODES",
        "  (whole gang)   block   b0       3      3",
        "  lead           rack    b0/r0    1      1",
        "  work           block   b0       2      2",
        "",
        "  RANK   POD      NODE",
        "  0      lead-0   n0",
        "  1      work-1   n1",
        "  2      work-0   n2",
    ]


def unsaid(*members: Json, **more: Any) -> tuple[str, str]:
    (found,) = story(group(**more), members).gangs
    return found.state, " ".join(found.lines)


def test_k15_without_a_word_of_the_scheduler_what_can_be_seen_is_told() -> None:
    gated = pod("w-0")
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    assert unsaid() == ("NotReady", "it has no pods yet")
    assert unsaid(gated, pod("w-1")) == ("NotReady", "1 of its 2 pods are gated")
    assert unsaid(pod("w-0"))[0] == "Unknown"


def test_k15_a_plan_that_nobody_here_can_verify_is_said_to_be_recorded_and_never_to_be_carried_out() -> None:
    """A tenant may have forged it: what is claimed of pods is what can be seen of them."""
    forged = {"spinney.dev/plan": '{"state":"bind"}', "spinney.dev/plan-signature": f"v1 - 1 {'0' * 64}"}
    state, line = unsaid(pod("w-0", "n0"), pod("w-1"), metadata={"annotations": forged})
    assert state == "PlanRecorded"
    assert line == "a plan is recorded, which only its scheduler can verify; 1 of its 2 pods are bound"


def test_k15_a_gang_that_changed_labels_have_torn_apart_is_said_to_be() -> None:
    there = [node("n0", "b0/r0"), node("n1", "b0/r1")]
    (found,) = story(group(), [pod("w-0", "n0"), pod("w-1", "n1")], there).gangs
    words = f"the gang asks for one {RACK}, but its pods run in more than one: labels of nodes have changed"
    assert (found.state, found.lines) == ("Scheduled", (words,))


def test_k14_k15_a_gang_that_is_stale_is_said_to_be() -> None:
    since = {"kai.scheduler/stale-podgroup-timestamp": "2026-01-01T00:00:00Z"}
    state, words = unsaid(pod("w-0", "n0"), metadata={"annotations": since})
    assert state == "Scheduled"
    assert words == "it is stale: it runs with fewer pods than it needs together, since 2026-01-01T00:00:00Z"


def test_k15_a_gang_whose_pods_have_ended_is_said_to_have_finished() -> None:
    ended = story(group(), [pod(f"w-{at}", "n0", status={"phase": "Succeeded"}) for at in range(2)])
    assert shown(ended).splitlines() == [
        "PodGroup ns/a has finished",
        "",
        "ns/a  Finished",
        "  queue default-queue, topology net",
        "",
        "  all its pods have ended",
    ]
    running = story(group(), [pod("w-0", "n0")])
    several = [
        shown(WorkloadExplanation("Job", "ns", "a", gangs)).splitlines()[0]
        for gangs in (ended.gangs * 2, ended.gangs + running.gangs, running.gangs * 2)
    ]
    assert several == [
        "Job ns/a: all 2 gangs have finished",
        "Job ns/a: 1 of 2 gangs has finished, no gang waits",
        "Job ns/a: all 2 gangs are placed",
    ]


def test_a_condition_of_another_scheduler_is_told_as_it_is() -> None:
    said = {"type": "UnschedulableOnNodePool", "nodePool": "default", "reason": "Unschedulable", "message": "no\nroom"}
    assert unsaid(pod("w-0"), status={"schedulingConditions": [said]}) == ("Unschedulable", "no room")


def test_k2_a_pod_with_a_reason_of_its_own_is_named() -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "sub-group x\nis unknown"}
    found = shown(story(refused(), [pod("w-0"), pod("w-1", status={"conditions": [said]})]))
    assert found.splitlines()[-1] == "  w-1: sub-group x is unknown"


def test_of_many_gangs_those_that_wait_are_shown_and_the_others_counted() -> None:
    placed, waiting = story(group(), [pod("w-0", "n0")]).gangs[0], story(refused(), [pod("w-0")]).gangs[0]
    many = WorkloadExplanation("PodCliqueSet", "ns", "a", (*[placed] * 12, waiting))
    lines = shown(many).splitlines()
    assert lines[2].endswith("Unschedulable")
    assert lines[-1] == "  and 1 gang more: -o json has them all"
    assert sum(line.startswith("ns/") for line in lines) == 12


def test_many_pods_are_cut_and_counted() -> None:
    members = [pod(f"w-{at:02}", "n0") for at in range(20)]
    found = shown(story(group(), members, [node("n0", "b0/r0")])).splitlines()
    assert found[-1] == "  and 4 pods more: -o json has them all"
    assert sum("w-" in line for line in found) == 16


def test_nothing_is_wider_than_80_columns_where_names_allow_it() -> None:
    found = shown(story(refused(), [pod("w-0")]))
    assert max(map(len, found.splitlines())) <= 80


def test_a_name_cannot_command_the_terminal() -> None:
    odd = story(group(), [pod("w-0", "n0")])
    odd = WorkloadExplanation("Pod", "ns", "\x1b[2J", odd.gangs, ("\x1b[2J",))
    assert "\x1b" not in shown(odd)


def test_color_is_there_only_when_asked_for() -> None:
    found = story(refused(), [pod("w-0")])
    assert "\x1b[31mUnschedulable" in shown(found, Screen(color=True))
    assert "\x1b" not in shown(found)


def test_a_pod_that_no_gang_has() -> None:
    lone = msgspec.convert(pod("w-0", of=""), Pod)
    assert shown(lone_pod(lone)).splitlines()[-1] == "  it is in no PodGroup, so that no gang scheduler looks at it"


# Who is meant


def owned(name: str, kind: str, owner: str, **labels: str) -> Json:
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": "u"}
    return group(name, metadata={"ownerReferences": [reference], "labels": labels})


GROVE = {"app.kubernetes.io/part-of": "llm", "grove.io/podgang": "llm-0"}


def found_by(name: str, kind: str = "", groups: Sequence[Json] = (), members: Sequence[Json] = ()) -> Any:
    read = [msgspec.convert(each, PodGroup) for each in groups]
    return find(read, [msgspec.convert(each, Pod) for each in members], name, kind)


def test_k15_every_owner_finds_its_gangs() -> None:
    of_gang = owned("llm-0", "PodGang", "llm-0", **GROVE)
    top = "name: serve\nuid: u\ngroup: apps\nversion: v1\nkind: Deployment\n"
    grouped = group("pg-serve-u", metadata={"annotations": {"kai.scheduler/top-owner-metadata": top}})
    labels = {"labels": {**GROVE, "grove.io/podclique": "llm-0-decode"}}
    groups = [of_gang, owned("pg-train-u", "Job", "train"), grouped]
    members = [pod("llm-0-decode-x", of="llm-0", metadata=labels)]
    assert found_by("llm", "", groups) == ("PodCliqueSet", {"llm-0"})
    assert found_by("llm-0", "", groups) == ("PodGang", {"llm-0"})
    assert found_by("llm-0", "pg", groups) == ("PodGroup", {"llm-0"})
    assert found_by("llm-0-decode", "", groups, members) == ("PodClique", {"llm-0"})
    assert found_by("llm-0-decode-x", "", groups, members) == ("Pod", {"llm-0"})
    assert found_by("train", "jobs.batch", groups) == ("Job", {"pg-train-u"})
    assert found_by("serve", "", groups) == ("Deployment", {"pg-serve-u"})


def test_nobody_of_that_name_or_kind_is_nobody() -> None:
    groups = [owned("pg-train-u", "Job", "train")]
    assert found_by("nobody", "", groups) is None
    assert found_by("train", "PodGang", groups) is None


def test_one_name_for_several_gangs_is_asked_about() -> None:
    groups = [owned("one", "Job", "train"), owned("two", "RayJob", "train")]
    with pytest.raises(ValueError, match="train is the name of several objects: Job, RayJob; choose one with --kind"):
        found_by("train", "", groups)
    assert found_by("train", "rayjob", groups) == ("RayJob", {"two"})


# On a server


TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "net"},
    "spec": {"levels": [{"nodeLabel": BLOCK}, {"nodeLabel": RACK}]},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}


def looked(*manifests: Json, name: str = "a", kind: str = "") -> WorkloadExplanation:
    """What a world with these objects says."""

    async def main(sim: Sim) -> WorkloadExplanation:
        async with World(sim.clock, sim.dice, Parts(controllers=())) as world:
            await world.apply([each for each in all_crds() if each["spec"]["group"] != "nvidia.com"])
            await world.apply([NAMESPACE, *manifests])
            return await read_explanation(world.client, "ns", name, kind)

    return run(main)


def test_k15_a_placed_gang_is_read_from_a_server_with_the_domains_of_its_nodes() -> None:
    found = looked(TOPOLOGY, node("n0", "b0/r0"), group(), pod("w-0", "n0"), pod("stranger", of="b"))
    assert found.to_json() == {
        "kind": "PodGroup",
        "namespace": "ns",
        "name": "a",
        "gangs": [
            {
                "podGroup": "ns/a",
                "state": "Scheduled",
                "waits": False,
                "lines": [],
                "queue": "default-queue",
                "topology": "net",
                "score": None,
                "explanation": {},
                "groups": [
                    {
                        "group": "",
                        "required": RACK,
                        "level": RACK,
                        "domain": ["b0", "r0"],
                        "bound": 1,
                        "pods": 1,
                        "nodes": 1,
                    }
                ],
                "pods": [{"name": "w-0", "node": "n0", "domain": ["b0", "r0"]}],
            }
        ],
    }


def test_k15_a_node_that_was_taken_away_is_named_as_long_as_a_pod_is_said_to_be_there() -> None:
    found = looked(TOPOLOGY, node("n0", "b0/r0"), group(), pod("w-0", "n0"), pod("w-1", "gone"))
    assert found.notes == ("node gone of pod w-1 does not exist any more",)


def test_k15_a_pod_that_waits_without_a_gang_is_named_beside_the_gang() -> None:
    made, stray = pod("w-0", "n0"), pod("w-1")
    for each in (made, stray):
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
        each["metadata"]["ownerReferences"] = [reference]
    del stray["metadata"]["annotations"]
    found = looked(TOPOLOGY, node("n0", "b0/r0"), group(), made, stray, name="train", kind="Job")
    assert found.notes == ("pod w-1 is in no gang yet",)


def test_c8_without_the_right_to_read_nodes_domains_are_what_pods_were_told() -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": ["scheduling.run.ai"], "resources": ["podgroups"], "verbs": ["list"]},
    ]
    access = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "look", "namespace": "ns"}}
    who = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"}

    async def main(sim: Sim) -> WorkloadExplanation:
        async with World(sim.clock, sim.dice, Parts(controllers=())) as world:
            await world.apply([each for each in all_crds() if each["spec"]["group"] != "nvidia.com"])
            await world.apply(
                [NAMESPACE, TOPOLOGY, group(), pod("w-0", "n0", annotations={"spinney.dev/domain": "b0/r0"})]
            )
            await world.apply([{**access, "kind": "Role", "rules": rules}])
            await world.apply([{**access, "kind": "RoleBinding", "subjects": [who], "roleRef": role}])
            guest = InProcessTransport(world.server, Identity("guest", groups=(AUTHENTICATED,)))
            return await read_explanation(ApiClient(guest, sim.dice), "ns", "a", "")

    found = run(main)
    assert found.gangs[0].members[0].domain == ("b0", "r0")
    assert found.notes == ("nodes may not be read: domains are those written to pods when they were bound",)


def test_an_object_without_pods_has_no_gang_yet() -> None:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "ns"}, "spec": spec}
    with pytest.raises(WorkloadNotFound, match="Job ns/a has no gang yet: none of its pods is in a PodGroup"):
        looked(job)


@pytest.mark.parametrize(("kind", "what"), [("", "workload or pod ns/a"), ("Job", "Job ns/a")])
def test_what_is_not_there_is_said_not_to_be(kind: str, what: str) -> None:
    with pytest.raises(WorkloadNotFound, match=f"there is no {what}"):
        looked(kind=kind)


@pytest.mark.parametrize(("namespace", "name"), [("ns", "\u00e4"), ("ns", "a%2Fb"), ("n s", "a"), ("\u00e4", "a")])
def test_a_name_that_nobody_can_have_is_nobodys(namespace: str, name: str) -> None:
    async def main(sim: Sim) -> None:
        async with World(sim.clock, sim.dice) as world:
            with pytest.raises(WorkloadNotFound, match=f"there is no workload or pod {namespace}/{name}"):
                await read_explanation(world.client, namespace, name, "")

    run(main)


def test_a_cluster_without_our_kinds_is_told_what_to_apply() -> None:
    async def main(sim: Sim) -> None:
        async with World(sim.clock, sim.dice) as world:
            with pytest.raises(ConfigError, match=r"does not serve podgroups.scheduling.run.ai: apply `spinney man"):
                await read_explanation(world.client, "ns", "a", "")

    run(main)


# The command


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_the_same_as_data(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = story(refused(), [pod("w-0")])
    monkeypatch.setattr(command, "_read", lambda *given: found)
    done = CliRunner().invoke(cli, ["explain", "ns/a", "-o", output])
    assert (json.loads(done.output) if output == "json" else yaml.safe_load(done.output)) == found.to_json()
    assert found.to_json()["gangs"][0]["explanation"]["fitsIf"] == [{"level": BLOCK}, {"count": 2}]


def test_a_pipe_gets_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_read", lambda *given: story(refused(), [pod("w-0")]))
    done = CliRunner().invoke(cli, ["explain", "ns/a"])
    assert (done.exit_code, "\x1b" in done.output) == (0, False)


def test_nothing_of_that_name_is_one_line_and_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*given: Any) -> WorkloadExplanation:
        raise WorkloadNotFound("there is no workload or pod ns/a")

    monkeypatch.setattr(command, "query_cluster", nothing)
    done = CliRunner().invoke(cli, ["explain", "ns/a"])
    assert (done.exit_code, done.output) == (1, "spinney explain: there is no workload or pod ns/a\n")


def test_a_cluster_that_cannot_be_read_is_one_line_and_status_2() -> None:
    done = CliRunner().invoke(cli, ["explain", "ns/a", "--kubeconfig", "/nowhere/at/all"])
    assert done.exit_code == 2
    assert done.output.startswith("spinney explain: ")
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize("workload", ["/a", "ns/", "ns/a/b"])
def test_a_name_without_its_namespace_is_a_usage_error(workload: str) -> None:
    done = CliRunner().invoke(cli, ["explain", workload])
    assert done.exit_code == 2
    assert "is not NAMESPACE/NAME" in done.output


def test_the_example_of_a_usage_error_is_one_that_could_be_typed() -> None:
    result = CliRunner().invoke(cli, ["explain", "a/b/c"])
    assert "'a/b/c' is not NAMESPACE/NAME, for example default/c, nor [KIND/]NAME\n" in result.stderr
