"""The pod-grouper in a simulated world: pods get their groups, mistakes are seen and healed, and then nobody writes."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.drive.client.http.transport import Response
from spinney.sim.faults import CrashPoint, FaultyTransport, Schedule, When
from unit.grouper.grouper_world import RACK, ZONE, GrouperWorld, in_world, job, placed, pod, pod_spec
from unit.operator.test_topology_bindings import binding

Json = dict[str, Any]
ASKS = placed(topology="network", required="rack")
WRONG = placed(topology="network", required="rak")
SENTENCE = (
    "Job default/train: metadata.annotations[kai.scheduler/topology-required-placement]: "
    f'found "rak", expected a level of topology network: {ZONE}, {RACK}, zone, rack; did you mean rack?'
)


async def _pods(world: GrouperWorld, prefix: str = "") -> list[Json]:
    return [each for each in await world.world.list("Pod") if each["metadata"]["name"].startswith(prefix)]


def _named(pods: list[Json]) -> set[str]:
    return {(each["metadata"].get("annotations") or {}).get("pod-group-name", "") for each in pods}


def _condition(member: Json) -> tuple[str, str]:
    found = [each for each in member["status"].get("conditions") or [] if each["type"] == "PodScheduled"]
    return (found[0]["reason"], found[0]["message"]) if found else ("", "")


class Counting:
    """A transport that counts what is asked of the server."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close
        self.calls: list[str] = []

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        self.calls.append(f"{method} {path}")
        return await self._inner.request(method, path, **rest)


def test_k2_an_annotated_job_becomes_one_gang() -> None:
    async def scenario(world: GrouperWorld) -> tuple[Json, set[str]]:
        await world.world.apply(job("train", 3, annotations=ASKS))
        await world.settle()
        return await world.the_group(), _named(await _pods(world))

    found, names = in_world(scenario)
    assert names == {found["metadata"]["name"]}
    assert found["spec"]["minMember"] == 3
    assert found["spec"]["topologyConstraint"] == {"topology": "network", "requiredTopologyLevel": RACK}
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Job"


def test_k2_pods_of_a_deployment_are_groups_of_their_own_under_its_name() -> None:
    async def scenario(world: GrouperWorld) -> list[Json]:
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {**pod_spec(), "restartPolicy": "Always"}}
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
        await world.world.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": spec,
            }
        )
        await world.settle()
        return [*(await world.groups()).values()]

    found = in_world(scenario)
    assert len(found) == 3
    assert all(
        "kind: Deployment" in each["metadata"]["annotations"]["kai.scheduler/top-owner-metadata"] for each in found
    )


def test_k2_pods_of_other_schedulers_are_left_alone() -> None:
    async def scenario(world: GrouperWorld) -> tuple[int, int]:
        await world.world.apply([pod("a", "default-scheduler"), pod("b")])
        await world.settle()
        return len(await world.groups()), len(_named(await _pods(world)))

    assert in_world(scenario)[0] == 1
    both = GrouperSettings(scheduler_names=frozenset({"kai-scheduler", "default-scheduler"}))
    assert in_world(scenario, both)[0] == 2


def test_k16_default_queues_are_made_and_made_again() -> None:
    async def scenario(world: GrouperWorld) -> list[Json]:
        await world.settle()
        await world.world.delete("Queue", "default-queue")
        await world.settle()
        return await world.world.list("Queue")

    parent, queue = in_world(scenario)
    assert (parent["metadata"]["name"], queue["spec"]["parentQueue"]) == (
        "default-parent-queue",
        "default-parent-queue",
    )
    assert queue["spec"]["resources"]["gpu"] == {"quota": -1, "overQuotaWeight": 1, "limit": -1}


def test_k16_a_queue_that_is_named_and_missing_is_told_to_the_workload_and_healed() -> None:
    async def scenario(world: GrouperWorld) -> tuple[list[str], str, str]:
        await world.world.apply(job("train", 2, annotations=ASKS, labels={"kai.scheduler/queue": "resarch"}))
        await world.settle()
        told, before = await world.events("Job", "train"), (await world.the_group())["spec"]["queue"]
        await world.patch("Job", "train", {"metadata": {"labels": {"kai.scheduler/queue": "default-queue"}}})
        await world.settle(quiet_s=90)
        return told, before, (await world.the_group())["spec"]["queue"]

    told, before, after = in_world(scenario)
    assert told == ["Job default/train: metadata.labels[kai.scheduler/queue]: Queue 'resarch' does not exist"]
    assert (before, after) == ("resarch", "default-queue")


def test_k2_a_mistake_is_seen_on_the_job_and_on_its_pods_once() -> None:
    async def scenario(world: GrouperWorld) -> tuple[Any, ...]:
        await world.world.apply(job("train", 2, annotations=WRONG))
        await world.settle(quiet_s=120)
        pods = await _pods(world)
        told = [await world.events("Pod", each["metadata"]["name"]) for each in pods]
        return await world.groups(), await world.events("Job", "train"), told, [_condition(each) for each in pods]

    groups, of_job, of_pods, conditions = in_world(scenario)
    assert groups == {}
    assert of_job == [SENTENCE]
    assert of_pods == [[SENTENCE], [SENTENCE]]
    assert conditions == [("PodGrouperWarning", SENTENCE)] * 2


def test_k2_a_corrected_mistake_is_healed_within_seconds() -> None:
    async def scenario(world: GrouperWorld) -> tuple[float, set[str], set[Any]]:
        await world.world.apply(job("train", 2, annotations=WRONG))
        await world.settle()
        await world.annotate("Job", "train", required="rack")
        at_s = world.sim.clock.monotonic()
        while not all(_named(await _pods(world))):
            await world.pause()
        seconds = world.sim.clock.monotonic() - at_s
        await world.settle()
        pods = await _pods(world)
        return seconds, _named(pods), {_condition(each) for each in pods}

    seconds, names, conditions = in_world(scenario)
    assert seconds <= 5
    assert len(names) == 1
    assert conditions == {("", "")}


def test_k2_a_mistake_that_a_topology_heals_is_healed_by_it() -> None:
    async def scenario(world: GrouperWorld) -> tuple[set[str], set[str]]:
        lone = pod("p", annotations=placed(topology="later", required=RACK))
        await world.world.apply(lone)
        await world.settle()
        before = _named(await _pods(world))
        levels = [{"nodeLabel": RACK}]
        later = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "later"}}
        await world.world.apply({**later, "spec": {"levels": levels}})
        await world.settle()
        return before, _named(await _pods(world))

    before, after = in_world(scenario)
    assert before == {""}
    assert after != {""}


@pytest.mark.parametrize("references", [{}, {"kai_scheduler": "later"}], ids=["by name", "by reference"])
def test_t8_a_short_name_is_one_that_a_binding_gives(references: dict[str, str]) -> None:
    async def scenario(world: GrouperWorld) -> tuple[set[str], Json]:
        kai = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "later"}}
        await world.world.apply({**kai, "spec": {"levels": [{"nodeLabel": RACK}]}})
        await world.world.apply(pod("p", annotations=placed(topology="later", required="rack")))
        await world.settle()
        before = _named(await _pods(world))
        await world.world.apply(binding("a" if references else "later", {"rack": RACK}, **references))
        await world.settle()
        return before, (await world.the_group())["spec"]["topologyConstraint"]

    assert in_world(scenario) == ({""}, {"topology": "later", "requiredTopologyLevel": RACK})


def test_k2_a_mistake_made_later_is_seen_on_the_group_that_is_there() -> None:
    async def scenario(world: GrouperWorld) -> tuple[Any, ...]:
        await world.world.apply(job("train", 2, annotations=ASKS))
        await world.settle()
        await world.annotate("Job", "train", required="rak")
        await world.settle(quiet_s=90)
        wrong = await world.the_group()
        told = await world.events("PodGroup", wrong["metadata"]["name"])
        await world.annotate("Job", "train", required="zone")
        await world.settle(quiet_s=90)
        return wrong, told, await world.the_group()

    wrong, told, right = in_world(scenario)
    assert told == [SENTENCE]
    assert wrong["spec"]["topologyConstraint"]["requiredTopologyLevel"] == RACK
    (condition,) = wrong["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == ("Grouped", "False", SENTENCE)
    assert right["spec"]["topologyConstraint"]["requiredTopologyLevel"] == ZONE
    assert right["status"]["conditions"][0]["status"] == "True"


def test_k2_what_a_user_changes_on_a_waiting_job_reaches_its_group() -> None:
    async def scenario(world: GrouperWorld) -> Json:
        await world.world.apply(job("train", 2, annotations=ASKS))
        await world.settle()
        await world.annotate("Job", "train", required="zone", preferred="rack")
        await world.settle(quiet_s=90)
        return (await world.the_group())["spec"]["topologyConstraint"]

    assert in_world(scenario) == {
        "topology": "network",
        "requiredTopologyLevel": ZONE,
        "preferredTopologyLevel": RACK,
    }


def test_k2_a_job_that_is_annotated_later_becomes_one_gang_and_nothing_is_left_behind() -> None:
    async def scenario(world: GrouperWorld) -> tuple[int, Json, set[str]]:
        await world.world.apply(job("train", 3))
        await world.settle()
        alone = len(await world.groups())
        await world.annotate("Job", "train", topology="network", required="rack")
        await world.settle(quiet_s=90)
        return alone, await world.the_group(), _named(await _pods(world))

    alone, found, names = in_world(scenario)
    assert alone == 3
    assert found["spec"]["minMember"] == 3
    assert names == {found["metadata"]["name"]}


def test_k2_a_group_that_somebody_deleted_comes_back() -> None:
    async def scenario(world: GrouperWorld) -> tuple[Json, Json]:
        await world.world.apply(job("train", 2, annotations=ASKS))
        await world.settle()
        before = await world.the_group()
        await world.world.delete("PodGroup", before["metadata"]["name"])
        await world.settle()
        return before, await world.the_group()

    before, after = in_world(scenario)
    assert before["spec"] == after["spec"]
    assert before["metadata"]["uid"] != after["metadata"]["uid"]


def test_k14_a_gang_that_finishes_needs_ever_fewer_pods() -> None:
    async def scenario(world: GrouperWorld) -> tuple[int, int]:
        await world.world.apply(job("train", 3, annotations=ASKS))
        await world.settle()
        before = (await world.the_group())["spec"]["minMember"]
        (first, *_) = await _pods(world)
        name = first["metadata"]["name"]
        await world.patch("Pod", name, {"status": {"phase": "Succeeded"}}, sub="status")
        await world.settle()
        return before, (await world.the_group())["spec"]["minMember"]

    assert in_world(scenario) == (3, 2)


GANG: Json = {
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "metadata": {"name": "g", "namespace": "default", "annotations": {"grove.io/topology-name": "network"}},
    "spec": {
        "topologyConstraint": {"packConstraint": {"required": RACK}},
        "podgroups": [{"name": "c", "minReplicas": 1, "podReferences": [{"namespace": "default", "name": "p"}]}],
    },
}


def test_k2_pods_of_another_operator_get_the_group_of_their_gang_once_it_is_there() -> None:
    async def scenario(world: GrouperWorld) -> tuple[set[str], list[str], Json]:
        clique = {"name": "c", "spec": {"podSpec": {"containers": [{"name": "main", "image": "serve"}]}}}
        own = {"name": "s", "namespace": "default"}
        spec = {"replicas": 1, "template": {"cliques": [clique]}}
        (made,) = await world.world.apply(
            {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": own, "spec": spec}
        )
        above = [
            {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "s", "uid": made["metadata"]["uid"]}
        ]
        gated = pod("p", labels={"grove.io/podgang": "g"}, ownerReferences=above)
        gated["spec"]["schedulingGates"] = [{"name": "grove.io/podgang-pending-creation"}]
        await world.world.apply(gated)
        await world.settle()
        before = _named(await _pods(world))
        await world.world.apply(GANG)
        await world.patch("Pod", "p", {"spec": {"schedulingGates": None}})
        await world.settle()
        return before, await world.events("Pod", "p"), await world.the_group()

    before, told, found = in_world(scenario)
    assert (before, told) == ({""}, [])
    assert found["metadata"]["name"].startswith("pg-g-")
    assert found["spec"]["subGroups"] == [{"name": "c", "minMember": 1}]
    assert found["spec"]["topologyConstraint"]["requiredTopologyLevel"] == RACK


class Blindfold:
    """A transport that may not look at Jobs."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if "/jobs/" in path:
            return Response(403, {}, b"{}")
        return await self._inner.request(method, path, **rest)


def test_k2_an_owner_that_may_not_be_read_is_told_and_its_pods_stand_for_themselves() -> None:
    async def scenario(world: GrouperWorld) -> tuple[str, set[str], list[str]]:
        await world.world.apply(job("train", 1, annotations=ASKS))
        await world.settle()
        (member,) = await _pods(world)
        name = member["metadata"]["name"]
        return name, _named([member]), await world.events("Pod", name)

    name, (group,), told = in_world(scenario, wrap=Blindfold)
    assert group.startswith(f"pg-{name}-")
    assert told == [
        f"Pod default/{name}: metadata.ownerReferences: Job train cannot be read, so it is not grouped by it"
    ]


class Refusing:
    """A server that will not have PodGroups for a while."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.stream, self.close = inner.stream, inner.close
        self._left = 5

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        if method == "POST" and path.endswith("/podgroups") and self._left:
            self._left -= 1
            return Response(403, {}, b'{"kind": "Status", "code": 403, "message": "exceeded quota"}')
        return await self._inner.request(method, path, **rest)


def test_k2_a_group_that_the_server_refuses_is_told_and_tried_again() -> None:
    async def scenario(world: GrouperWorld) -> tuple[Json, Json, int]:
        await world.world.apply(pod("p"))
        await world.pause(5)
        (before,) = await _pods(world)
        await world.settle(quiet_s=90)
        (after,) = await _pods(world)
        return before, after, len(await world.groups())

    before, after, groups = in_world(scenario, wrap=Refusing)
    reason, message = _condition(before)
    assert (reason, message.startswith("PodGroup default/pg-p-")) == ("PodGrouperWarning", True)
    assert message.endswith(" is refused: exceeded quota")
    assert (_condition(after), groups) == (("", ""), 1)


def test_k2_many_pods_of_one_owner_cost_one_walk() -> None:
    transports: list[Counting] = []

    def counting(inner: Any) -> Counting:
        transports.append(Counting(inner))
        return transports[-1]

    async def scenario(world: GrouperWorld) -> None:
        await world.end()
        await world.world.apply(job("train", 200, annotations=ASKS))
        await world.world.settle()
        transports.clear()
        await world.begin(counting)
        await world.settle(quiet_s=0.5)

    in_world(scenario, wrap=counting)
    calls = transports[-1].calls
    walks = [call for call in calls if call.startswith("GET /apis/batch/v1/namespaces")]
    assert len([call for call in calls if call.startswith("POST") and "podgroups" in call]) == 1
    assert len([call for call in calls if call.startswith("PATCH") and "/pods/" in call]) == 200
    assert len(walks) <= 3


def test_k2_live1_at_rest_nobody_writes() -> None:
    transports: list[Counting] = []

    def counting(inner: Any) -> Counting:
        transports.append(Counting(inner))
        return transports[-1]

    async def scenario(world: GrouperWorld) -> list[str]:
        await world.world.apply([pod("p"), job("a", 2, annotations=ASKS), job("b"), job("train", annotations=WRONG)])
        await world.settle()
        await world.end()
        await world.begin(counting)
        await world.settle(quiet_s=600)
        return [call for call in transports[-1].calls if not call.startswith("GET") and "/events" not in call]

    assert in_world(scenario) == []


MANY = [
    pod("p"),
    job("a", 4, annotations=ASKS),
    job("b", 3),
    job("c", 2, annotations=ASKS),
    job("train", annotations=WRONG),
]


async def _end_state(world: GrouperWorld) -> Any:
    found = await world.groups()
    pods = await _pods(world)
    told = [_condition(each) for each in pods]
    return (
        sorted(each["spec"]["minMember"] for each in found.values()),
        len([each for each in pods if _named([each]) != {""}]),
        _named(pods) - {""} == set(found),
        told.count(("PodGrouperWarning", SENTENCE)),
        await world.events("Job", "train"),
    )


END_STATE = ([1, 1, 1, 1, 2, 4], 10, True, 2, [SENTENCE])


@pytest.mark.parametrize("seed", range(8))
def test_k2_r4_faults_do_not_change_where_it_ends(seed: int) -> None:
    transports: list[FaultyTransport] = []

    async def scenario(world: GrouperWorld) -> Any:
        await world.end()

        def faulty(inner: Any) -> Any:
            transports.append(FaultyTransport(inner, world.sim.dice, Schedule(otherwise=0.05)))
            return transports[-1]

        await world.begin(faulty)
        await world.world.apply(MANY)
        await world.settle(quiet_s=60)
        transports[-1].calm()
        await world.settle(quiet_s=200)
        return await _end_state(world)

    assert in_world(scenario, seed=seed) == END_STATE
    assert transports[0].log


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("write", range(1, 32, 3))
def test_k2_r3_a_crash_at_any_write_does_not_change_where_it_ends(write: int, when: When) -> None:
    async def scenario(world: GrouperWorld) -> Any:
        await world.end()
        crash = Schedule(crash=CrashPoint(write, when))
        await world.world.apply(MANY)
        await world.world.settle()
        await world.begin(lambda inner: FaultyTransport(inner, world.sim.dice, crash))
        await world.world.settle(quiet_s=5)
        await world.end()
        await world.begin()
        await world.settle(quiet_s=60)
        return await _end_state(world)

    assert in_world(scenario) == END_STATE
