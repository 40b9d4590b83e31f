"""Scheduling as a user sees it, the same on the embedded and on a real API server: where gangs go, why they wait."""

from __future__ import annotations

from typing import Any

import pytest

from contract.operator_stages import BLOCK, GB200, H100_RACK, HOST, RACK, ZONE, topology
from contract.scheduler_stages import GPU, GROUPS, QUEUES, SETS, Hall, tree
from unit.operator.operator_world import clique, group, podcliqueset
from unit.scheduler.scheduler_world import constraint, pod, podgroup, pods

Json = dict[str, Any]


def packed(domain: str) -> Json:
    return {"topologyConstraint": {"packDomain": domain}}


def asking(gpus: int) -> Json:
    amounts = {GPU: str(gpus)}
    return {"containers": [{"name": "main", "image": "serve", "resources": {"limits": amounts, "requests": amounts}}]}


def workers(name: str, replicas: int, minimum: int | None = None, gpus: int = 8, **more: Any) -> Json:
    return clique(name, replicas, minimum, podSpec=asking(gpus), **more)


def queue(name: str, **gpu: Any) -> Json:
    free = {"quota": -1, "limit": -1}
    resources = {"gpu": {**free, **gpu}, "cpu": free, "memory": free}
    spec = {"parentQueue": "default-parent-queue", "resources": resources}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


# Levels


def test_k6_a_required_rack_is_the_one_that_holds_the_gang(hall: Hall) -> None:
    """Racks of two, three and two nodes, and a pod in each but the second."""
    hall.build(tree(racks=3, hosts=[2, 3, 2]))
    busy = [pod(f"busy-{rack}", f"busy-{rack}", nodeSelector={RACK: f"z0-b0-r{rack}"}) for rack in (0, 2)]
    hall.make(podgroup("busy-0"), podgroup("busy-2"), *busy)
    hall.running("busy", 2)
    hall.make(podgroup("a", 3, required=RACK), *pods("a", 3))
    assert hall.domains(hall.running("a", 3).values()) == {"z0/z0-b0/z0-b0-r1": 3}


def test_k6_a_preferred_rack_gives_way_level_by_level(hall: Hall) -> None:
    hall.build(tree(blocks=2, racks=2, hosts=2))
    scores = {}
    for name, count, used in (("one", 2, (1, 1)), ("two", 4, (1, 2)), ("all", 6, (2, 3))):
        hall.make(podgroup(name, count, preferred=RACK), *pods(name, count))
        nodes = hall.running(name, count).values()
        assert (len(hall.domains(nodes, BLOCK)), len(hall.domains(nodes, RACK))) == used
        score = hall.eventually(
            lambda name=name: hall.group(name)["metadata"]["annotations"]["spinney.dev/placement-score"], "the score"
        )
        scores[name] = float(score)
        hall.remove("pods", *hall.bound(name))
    assert 1.0 == scores["one"] > scores["two"] > scores["all"] > 0.0


def test_k6_a_required_level_bounds_the_fall_of_a_preferred_one(hall: Hall) -> None:
    hall.build(tree(blocks=2, racks=2, hosts=2))
    hall.make(podgroup("wide", 3, required=BLOCK, preferred=RACK), *pods("wide", 3))
    assert len(hall.domains(hall.running("wide", 3).values(), BLOCK)) == 1
    hall.make(podgroup("wider", 5, required=BLOCK, preferred=RACK), *pods("wider", 5))
    hall.says("wider", f"requirement {BLOCK} couldn't be satisfied")
    assert hall.bound("wider-") == {}


def test_g11_k3_prefill_and_decode_have_racks_of_their_own_in_one_block(hall: Hall) -> None:
    """Set in a block, groups in racks, leaders of two small pods on one host."""
    hall.build(tree(blocks=2, racks=2, hosts=4))
    cliques = [
        workers("p-leader", 2, gpus=4, **packed("host")),
        workers("p-worker", 3),
        workers("d-leader", 2, gpus=4, **packed("host")),
        workers("d-worker", 1),
    ]
    groups = [
        group("prefill", ["p-leader", "p-worker"], **packed("rack")),
        group("decode", ["d-leader", "d-worker"], **packed("rack")),
    ]
    hall.apply(podcliqueset("llm", cliques, groups, **packed("block")))
    everybody = hall.running("llm", 8)
    prefill, decode = hall.bound("llm-0-prefill"), hall.bound("llm-0-decode")
    assert len(hall.domains(everybody.values(), BLOCK)) == 1
    assert len(hall.domains(prefill.values())) == len(hall.domains(decode.values())) == 1
    assert hall.domains(prefill.values()).keys() != hall.domains(decode.values()).keys()
    for name in ("llm-0-prefill-0-p-leader", "llm-0-decode-0-d-leader"):
        assert len(hall.domains(hall.bound(name).values(), HOST)) == 1


def test_k5_pods_of_different_sizes_are_counted_as_what_they_are(hall: Hall) -> None:
    """Four pods of two GPUs and one of eight need sixteen: two nodes, not five."""
    hall.build(tree(blocks=2, racks=1, hosts=2))
    parts = [{"name": "prefill", "minMember": 4}, {"name": "decode", "minMember": 1}]
    members = [pod(f"mixed-p{number}", "mixed", 2, subgroup="prefill") for number in range(4)]
    hall.make(podgroup("mixed", 5, required=BLOCK, subGroups=parts), *members)
    hall.make(pod("mixed-d", "mixed", 8, subgroup="decode"))
    nodes = hall.running("mixed", 5)
    assert len(hall.domains(nodes.values(), BLOCK)) == 1
    assert len({node for name, node in nodes.items() if name != "mixed-d"}) == 1
    hall.apply(podcliqueset("as-set", [workers("prefill", 4, gpus=2), workers("decode", 1)], **packed("block")))
    again = hall.running("as-set", 5)
    assert len(set(again.values())) == 2
    assert not set(again.values()) & set(nodes.values())


# Several topologies


def test_t5_two_kinds_of_hardware_have_racks_of_their_own(hall: Hall) -> None:
    h100 = tree(racks=2).replace(f"label: {RACK}", f"label: {H100_RACK}")
    hall.build("name: gb200" + tree(racks=2), "name: h100" + h100)
    levels = {"zone": ZONE, "rack": H100_RACK, "host": HOST}
    hall.make(topology("gb200", GB200), topology("h100", levels))
    for name in ("gb200", "h100"):
        whole = podcliqueset(f"on-{name}", [workers("w", 2)], clusterTopologyName=name, **packed("rack"))
        hall.apply(whole)
    for name, keys in (("gb200", [ZONE, BLOCK, RACK]), ("h100", [ZONE, H100_RACK])):
        nodes = hall.running(f"on-{name}", 2)
        assert all(node.startswith(f"{name}-") for node in nodes.values())
        assert len(hall.domains(nodes.values(), keys[-1], keys)) == 1
    hall.remove(SETS, "on-gb200", "on-h100")


def test_t5_two_trees_over_the_same_nodes_are_kept_apart(hall: Hall) -> None:
    """A rack is a column of hosts, a row crosses all racks; each gang means its own."""
    row = "example.com/row"
    hall.build(tree(racks=2, hosts=2))
    for rack in range(2):
        for host in range(2):
            hall.kubectl("label", "node", f"z0-b0-r{rack}-n{host}", f"{row}=row-{host}")
    rows = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "rows"}}
    hall.make({**rows, "spec": {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": row}]}})
    hall.make(podgroup("column", 2, required=RACK), *pods("column", 2, 4))
    crossing = podgroup("row", 2, topologyConstraint={"topology": "rows", "requiredTopologyLevel": row})
    hall.make(crossing, *pods("row", 2, 5))
    column, across = hall.running("column", 2).values(), hall.running("row", 2).values()
    assert len(hall.domains(column, RACK)) == 1
    assert len(hall.domains(across, row, [row])) == 1
    assert len(hall.domains(across, RACK)) == 2


# Elastic gangs


def test_k14_an_elastic_gang_starts_with_its_minimum_and_grows_beside_it(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=[3, 2]))
    hall.apply(podcliqueset("elastic", [workers("w", 4, minimum=2)], **packed("rack")))

    def has_grown() -> bool:
        return len(hall.bound("elastic")) == 3

    hall.eventually(has_grown, "three of four have room")
    rack = hall.domains(hall.bound("elastic").values())
    assert rack == {"z0/z0-b0/z0-b0-r0": 3}
    (left,) = {each["metadata"]["name"] for each in hall.pods("elastic")} - set(hall.bound("elastic"))
    hall.tells(left, f"Resources were not found for pod {hall.namespace}/{left} due to:")
    hall.explains("elastic-0", "1 pod beyond the minimum")
    labels = {ZONE: "z0", BLOCK: "z0-b0", RACK: "z0-b0-r0", HOST: "late"}
    hall.cluster.create("nodes", late_node("late", labels)).ok(201)
    assert hall.domains(hall.running("elastic", 4).values()) == {"z0/z0-b0/z0-b0-r0": 4}


def late_node(name: str, labels: Json, gpus: int = 8) -> Json:
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)}
    metadata = {"name": name, "labels": {HOST: name, **labels}}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


# Size


def test_k9_a_gang_of_sixty_four_is_bound_whole_in_its_block(hall: Hall) -> None:
    check_gang_fills_its_block(hall, racks=4, hosts=2)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_k9_a_gang_of_a_thousand_is_bound_whole_in_its_block(hall: Hall) -> None:
    check_gang_fills_its_block(hall, racks=5, hosts=25)


def check_gang_fills_its_block(hall: Hall, racks: int, hosts: int) -> None:
    """A gang with one pod for each GPU of the second block; the first block has one rack."""
    size = racks * hosts * 8
    hall.build(tree(blocks=2, racks=[1, racks], hosts=hosts))
    hall.make(podgroup("big", size, required=BLOCK, preferred=RACK), *pods("big", size, 1))
    hall.eventually(lambda: done(hall, "big"), "the plan is carried out", 240)
    nodes = hall.running("big", size, 240)
    assert hall.domains(nodes.values(), BLOCK) == {"z0/z0-b1": size}
    found = hall.pods("big")
    ranks = sorted(int(each["metadata"]["annotations"]["spinney.dev/rank"]) for each in found)
    assert ranks == list(range(size))


def test_k9_a_set_of_sixty_four_pods_is_bound_whole_in_its_block(hall: Hall) -> None:
    check_set_is_bound_in_its_block(hall, cliques=4, members=16)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_k9_a_set_of_a_thousand_pods_is_bound_whole_in_its_block(hall: Hall) -> None:
    check_set_is_bound_in_its_block(hall, cliques=10, members=100)


def check_set_is_bound_in_its_block(hall: Hall, cliques: int, members: int) -> None:
    """Each clique in one rack; a rack has room for one clique and at most half of another."""
    size = cliques * members
    hall.build(tree(blocks=2, racks=[1, cliques], hosts=members // 8 + 1))
    parts = [workers(f"w{number}", members, gpus=1, **packed("rack")) for number in range(cliques)]
    hall.apply(podcliqueset("big", parts, **packed("block")))
    hall.eventually(lambda: done(hall, "big-0"), "the plan is carried out", 240)
    nodes = hall.running("big", size, 240)
    assert hall.domains(nodes.values(), BLOCK) == {"z0/z0-b1": size}
    for number in range(cliques):
        own = [node for name, node in nodes.items() if name.startswith(f"big-0-w{number}-")]
        assert len(hall.domains(own)) == 1


def done(hall: Hall, name: str) -> bool:
    """A plan was recorded, and it is carried out."""
    annotations = hall.group(name)["metadata"]["annotations"]
    return "spinney.dev/plan" not in annotations and annotations["spinney.dev/epoch"] == "1"


# Room


def test_k15_everybody_says_the_same_about_a_gang_that_does_not_fit(hall: Hall) -> None:
    hall.build(tree(blocks=2, racks=2, hosts=2))
    hall.apply(podcliqueset("llm", [workers("w", 3)], **packed("rack")))
    message = hall.says("llm-0", f"topology grove-topology, requirement {RACK} couldn't be satisfied")
    assert "can allocate only 2 of 3 required pods" in message
    assert f"It would fit in one {BLOCK} or with 2 pods." in message
    (first, *_) = hall.pods("llm")
    name = first["metadata"]["name"]
    hall.eventually(lambda: hall.condition(name).get("message") == message, "the pod says the same")
    hall.eventually(lambda: message in hall.events("PodGroup", "llm-0", "Unschedulable"), "an event of the group")
    hall.eventually(lambda: message in hall.events("Pod", name, "Unschedulable"), "an event of the pod")
    for subject in ("llm", name):
        (gang,) = hall.explain(subject)["gangs"]
        assert "\n".join(gang["explanation"]["lines"]) == message
    described = hall.kubectl("describe", "pod", name)
    assert f"It would fit in one {BLOCK} or with 2 pods." in described


def test_live4_room_is_found_when_an_administrator_makes_it(hall: Hall) -> None:
    """A cordoned node comes back, and a node gets the label that it lacked."""
    hall.build(tree(racks=2, hosts=2))
    hall.kubectl("cordon", "z0-b0-r0-n0")
    hall.kubectl("label", "node", "z0-b0-r1-n0", f"{RACK}-")
    hall.make(podgroup("a", 2, required=RACK), *pods("a", 2))
    hall.says("a", "can allocate only 1 of 2 required pods")
    hall.make(podgroup("b", 2, required=RACK), *pods("b", 2))
    hall.says("b", "can allocate only 1 of 2 required pods")
    hall.kubectl("uncordon", "z0-b0-r0-n0")
    assert hall.domains(hall.running("a", 2).values()) == {"z0/z0-b0/z0-b0-r0": 2}
    hall.kubectl("label", "node", "z0-b0-r1-n0", f"{RACK}=z0-b0-r1")
    assert hall.domains(hall.running("b", 2).values()) == {"z0/z0-b0/z0-b0-r1": 2}
    hall.is_quiet("a")
    hall.is_quiet("b")


def test_inv2_of_two_gangs_that_each_fit_alone_one_runs_whole(hall: Hall) -> None:
    hall.build(tree(racks=1, hosts=2))
    names = ("left", "right")
    hall.make(*(podgroup(name, 2, required=RACK) for name in names))
    for left, right in zip(pods("left", 2), pods("right", 2), strict=True):
        hall.make(left, right)
    sizes = dict.fromkeys(names, 0)

    def decided() -> bool:
        sizes.update({name: len(hall.bound(name)) for name in names})
        return sorted(sizes.values()) == [0, 2]

    hall.eventually(decided, "one of them runs")
    winner, loser = sorted(names, key=lambda name: -sizes[name])
    hall.says(loser, "couldn't be satisfied")
    hall.remove("pods", *hall.bound(winner))
    hall.running(loser, 2)
    hall.is_quiet(loser)


def test_k8_room_that_is_being_left_is_waited_for_only_where_there_is_no_other(hall: Hall) -> None:
    """One rack is full of pods that end and do not leave."""
    hall.build(tree(racks=2, hosts=2))
    ending = pods("old", 2, nodeSelector={RACK: "z0-b0-r0"})
    for each in ending:
        each["metadata"]["finalizers"] = ["example.com/held"]
    hall.make(podgroup("old", 2), *ending)
    hall.running("old", 2)
    for name in ("old-0", "old-1"):
        hall.space.delete("pods", name).ok(200, 202)
    hall.make(podgroup("now", 2, required=RACK), *pods("now", 2))
    assert hall.domains(hall.running("now", 2).values()) == {"z0/z0-b0/z0-b0-r1": 2}
    hall.make(podgroup("next", 2, required=RACK), *pods("next", 2))
    told = hall.explains("next", "its place on 2 nodes is chosen", "pods that are ending there")
    assert told["state"] == "Pipelined"
    assert hall.bound("next") == {}
    for name in ("old-0", "old-1"):
        hall.space.patch("pods", name, {"metadata": {"finalizers": None}}).ok(200)
    assert hall.domains(hall.running("next", 2).values()) == {"z0/z0-b0/z0-b0-r0": 2}


# Loss


def test_g12_a_lost_member_is_replaced_in_its_domain_or_waits_for_room_there(hall: Hall) -> None:
    """The other rack is empty all the time."""
    hall.build(tree(racks=2, hosts=[3, 3]))
    hall.apply(podcliqueset("llm", [workers("w", 2)], **packed("rack")))
    before = hall.running("llm", 2)
    (rack,) = hall.domains(before.values())
    (kept, node), (_, lost) = sorted(before.items())
    hall.lose(lost)
    after = hall.running("llm", 2)
    assert after[kept] == node
    assert set(hall.domains(after.values())) == {rack}
    (spare,) = set(after.values()) - {node}
    hall.lose(spare)
    hall.explains("llm-0", f"not enough resources in {rack}")
    assert hall.bound("llm") == {kept: node}
    zone, block, last = rack.split("/")
    hall.cluster.create("nodes", late_node("new", {ZONE: zone, BLOCK: block, RACK: last})).ok(201)
    assert hall.running("llm", 2).keys() & {kept}
    assert set(hall.bound("llm").values()) == {node, "new"}


def test_k14_when_several_nodes_are_lost_at_once_the_rest_of_the_gang_stays(hall: Hall) -> None:
    hall.build(tree(racks=2, hosts=6))
    hall.apply(podcliqueset("llm", [workers("w", 4)], **packed("rack")))
    before = hall.running("llm", 4)
    (rack,) = hall.domains(before.values())
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in hall.pods("llm")}
    lost = sorted(before.values())[:2]
    hall.lose(*lost)
    after = hall.running("llm", 4)
    kept = {name for name, node in before.items() if node not in lost}
    assert set(hall.domains(after.values())) == {rack}
    now = {each["metadata"]["name"]: each["metadata"]["uid"] for each in hall.pods("llm")}
    assert {name: now[name] for name in kept} == {name: uids[name] for name in kept}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    ranks = sorted(int(each["metadata"]["annotations"]["spinney.dev/rank"]) for each in hall.pods("llm"))
    assert ranks == [0, 1, 2, 3]


# Scale-out


def test_g12_a_scaled_group_stays_in_the_block_of_its_base_or_waits_with_a_reason(hall: Hall) -> None:
    """Four hosts in a block: one for the router, one for each of three replicas."""
    hall.build(tree(blocks=2, racks=2, hosts=2))
    cliques = [workers("router", 1), workers("w", 1)]
    groups = [group("g", ["w"], 1, 1, **packed("rack"))]
    hall.apply(podcliqueset("llm", cliques, groups, **packed("block")))
    (block,) = hall.domains(hall.running("llm", 2).values(), BLOCK)
    hall.kubectl("scale", "pcsg", "llm-0-g", "--replicas=3")
    assert set(hall.domains(hall.running("llm", 4).values(), BLOCK)) == {block}
    hall.kubectl("scale", "pcsg", "llm-0-g", "--replicas=4")
    message = hall.says("llm-0-g-2", "couldn't be satisfied")
    assert f"not enough resources in {block}" in message
    assert len(hall.bound("llm")) == 4
    zone, last = block.split("/")
    hall.cluster.create("nodes", late_node("more", {ZONE: zone, BLOCK: last, RACK: f"{last}-new"})).ok(201)
    assert hall.domains(hall.running("llm", 5).values(), BLOCK) == {block: 5}
    hall.is_quiet("llm-0-g-2")


# Names


def test_k2_podgroups_of_one_name_in_two_namespaces_are_two_gangs(hall: Hall) -> None:
    other = hall.another(f"{hall.namespace}-b")
    hall.build(tree(racks=2, hosts=2))
    hall.make(podgroup("same", 2, required=HOST), *pods("same", 2, 4))
    theirs = podgroup("same", 2, namespace=other.namespace, required=RACK)
    other.create(GROUPS, theirs).ok(201)
    for each in pods("same", 2, 8, namespace=other.namespace):
        other.create("pods", each).ok(201)
    assert len(set(hall.running("same", 2).values())) == 1
    hall.eventually(lambda: len(hall.bound("same", other)) == 2, "the other one runs as well")
    away = hall.bound("same", other)
    assert len(set(away.values())) == 2
    assert len(hall.domains(away.values(), RACK)) == 1


# Queues


def test_k16_a_queue_at_its_limit_is_named_with_the_figures_and_a_raised_limit_is_used(hall: Hall) -> None:
    team = f"{hall.namespace}-team"
    hall.build(tree(hosts=4))
    hall.make(queue(team, limit=16))
    labels = {"kai.scheduler/queue": team}
    for name in ("first", "second"):
        hall.apply(podcliqueset(name, [workers("w", 2)], metadata={"name": name, "labels": labels}))
        if name == "first":
            hall.running("first", 2)
    message = hall.says("second-0", f"{team} quota has reached the allowable limit of GPUs. Limit is 16")
    (reason,) = hall.group("second-0")["status"]["schedulingConditions"][-1]["reasons"]
    details = reason["details"]["queueDetails"]
    assert (reason["reason"], details["name"]) == ("OverLimit", team)
    (gang,) = hall.explain("second")["gangs"]
    assert gang["explanation"]["lines"] == [message]
    limit = {"spec": {"resources": {"gpu": {"limit": 32}}}}
    hall.cluster.patch(QUEUES, team, limit).ok(200)
    hall.running("second", 2)
    hall.is_quiet("second-0")


def test_k10_k16_a_less_important_gang_leaves_a_full_queue_for_a_more_important_one(hall: Hall) -> None:
    team, low, high = (f"{hall.namespace}-{name}" for name in ("full", "low", "high"))
    for name, value in ((low, 10), (high, 30)):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        hall.cluster.create("scheduling.k8s.io/v1/priorityclasses", {**body, "value": value}).ok(201)
    hall.build(tree(hosts=4))
    hall.make(queue(team, limit=16), podgroup("prey", 2, queue=team, priorityClassName=low), *pods("prey", 2))
    hall.running("prey", 2)
    hall.make(podgroup("first", 2, queue=team, priorityClassName=high), *pods("first", 2))
    hall.running("first", 2)
    hall.eventually(lambda: hall.pods("prey") == [], "the others have left")
    hall.make(podgroup("equal", 2, queue=team, priorityClassName=high), *pods("equal", 2))
    message = hall.says("equal", f"{team} quota has reached the allowable limit of GPUs. Limit is 16")
    (gang,) = hall.explain("equal")["gangs"]
    assert gang["explanation"]["lines"] == [message]
    assert len(hall.running("first", 2)) == 2


def shown_on_the_set(hall: Hall, name: str) -> str:
    """What the set says about its gang not being scheduled; empty while it says nothing."""
    gangs = hall.space.get(SETS, name).ok(200)["status"]["podGangStatuses"]
    told = [each["message"] for gang in gangs for each in gang["conditions"] if each["type"] == "Scheduled"]
    return "".join(told)


def test_k16_a_queue_that_is_named_and_missing_is_told_and_used_when_it_comes(hall: Hall) -> None:
    team = f"{hall.namespace}-late"
    hall.build(tree())
    metadata = {"name": "llm", "annotations": {"kai.scheduler/queue": team}}
    hall.apply(podcliqueset("llm", [workers("w", 2)], metadata=metadata))
    message = hall.says("llm-0", f"Queue '{team}' does not exist")
    hall.eventually(lambda: shown_on_the_set(hall, "llm").endswith(message), "the set shows it")
    (gang,) = hall.explain("llm")["gangs"]
    assert gang["explanation"]["lines"] == [message]
    hall.make(queue(team))
    hall.running("llm", 2)
    hall.is_quiet("llm-0")


def test_k16_whoever_names_no_queue_is_in_the_default_queue(hall: Hall) -> None:
    hall.build(tree())
    hall.apply(podcliqueset("llm", [workers("w", 1)]))
    bare = pod("alone", "", 8)
    bare["metadata"].pop("annotations")
    bare["metadata"].pop("namespace")
    hall.apply(bare)
    hall.running("llm", 1)
    hall.running("alone", 1)
    assert {each["spec"]["queue"] for each in hall.space.list(GROUPS)["items"]} == {"default-queue"}
    parent = hall.cluster.get(QUEUES, "default-queue").ok(200)["spec"]["parentQueue"]
    assert parent == "default-parent-queue"


def test_k3_parts_of_a_group_written_by_hand_have_racks_of_their_own(hall: Hall) -> None:
    """Siblings of three, three and five pods in racks of five and six hosts: only one way fits."""
    hall.build(tree(racks=2, hosts=[5, 6]))
    sizes = {"s0": 3, "s1": 3, "s2": 5}
    parts = [{"name": name, "minMember": size, **constraint(RACK)} for name, size in sizes.items()]
    members = [pod(f"a-{name}-{number}", "a", subgroup=name) for name, size in sizes.items() for number in range(size)]
    hall.make(podgroup("a", 11, required=ZONE, subGroups=parts), *members)
    hall.running("a", 11)
    racks = {name: set(hall.domains(hall.bound(f"a-{name}").values())) for name in sizes}
    assert racks == {"s0": {"z0/z0-b0/z0-b0-r1"}, "s1": {"z0/z0-b0/z0-b0-r1"}, "s2": {"z0/z0-b0/z0-b0-r0"}}


# What pods name


def test_k8_a_pod_waits_for_its_config_map_is_told_so_and_goes_when_it_is_made(hall: Hall) -> None:
    hall.build(tree(hosts=2))
    members = pods("a", 2)
    members[1]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "config"}}]
    hall.make(podgroup("a", 2), *members)
    missing = 'configmap "config" not found, which containers[main].envFrom names'
    hall.says("a", missing)
    hall.tells("a-1", missing)
    assert missing in str(hall.explain("a"))
    assert hall.bound("a-") == {}
    hall.space.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}}).ok(201)
    hall.running("a-", 2)
