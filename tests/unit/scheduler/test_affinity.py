"""Pods of a gang beside the pods that are there: near some of them, apart from others."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from spinney.sim.world import World
from unit.operator.topologies import BLOCK, HOST, RACK, ZONE
from unit.scheduler.preemption_world import CLASSES, ONE_RACK
from unit.scheduler.scheduler_world import bound, domains, in_world, pod, podgroup, said
from unit.scheduler.watched_world import patch

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def term(key: str, app: str, **more: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def apart(key: str, app: str, **more: Any) -> Json:
    return {"podAntiAffinity": {REQUIRED: [term(key, app, **more)]}}


def near(key: str, app: str, **more: Any) -> Json:
    return {"podAffinity": {REQUIRED: [term(key, app, **more)]}}


def labelled(name: str, group: str, app: str, gpus: int = 1, **spec: Any) -> Json:
    """A pod of a gang; without an `affinity` it says nothing about others."""
    found = pod(name, group, gpus, **spec)
    found["metadata"].setdefault("labels", {})["app"] = app
    return found


def gang(name: str, app: str, count: int = 1, gpus: int = 1, **spec: Any) -> list[Json]:
    return [podgroup(name, count), *(labelled(f"{name}-{one}", name, app, gpus, **spec) for one in range(count))]


def resident(name: str, node: str, app: str, namespace: str = "default", **spec: Any) -> Json:
    """A pod of nobody we schedule, on its node already."""
    body = {"nodeName": node, "schedulerName": "other", "containers": [{"name": "main", "image": "serve"}], **spec}
    metadata = {"name": name, "namespace": namespace, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


async def where(world: World, names: list[str], level: str) -> list[tuple[str, ...]]:
    nodes = await bound(world)
    return [next(iter(await domains(world, [nodes[name]], level))) for name in names]


async def first_node(world: World) -> str:
    return sorted(each["metadata"]["name"] for each in await world.list("Node"))[0]


def test_k8_a_gang_keeps_away_from_a_pod_of_another_gang_by_any_label() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("db", "db"))
        await world.settle()
        await world.apply(gang("web", "web", 2, affinity=apart(ZONE, "db")))
        await world.settle()
        db, one, other = await where(world, ["db-0", "web-0", "web-1"], ZONE)
        assert db != one == other

    in_world(scenario)


def test_k8_a_gang_keeps_away_from_a_pod_of_no_gang_on_its_host() -> None:
    async def scenario(world: World) -> None:
        node = await first_node(world)
        await world.apply([resident("db", node, "db"), *gang("web", "web", 15, 8, affinity=apart(HOST, "db"))])
        await world.settle()
        assert len(await bound(world, "web")) == 15
        assert node not in (await bound(world, "web")).values()

    in_world(scenario)


def test_k8_pods_alike_that_say_nothing_are_kept_away_from_as_well() -> None:
    async def scenario(world: World) -> None:
        node = await first_node(world)
        await world.apply([resident("old", node, "web"), *gang("web", "web", 16, affinity=apart(HOST, "web"))])
        await world.settle()
        assert await bound(world, "web") == {}
        assert "1 node(s) kept out by pod anti-affinity" in await said(world, "web")

    in_world(scenario)


def test_k8_who_is_there_keeps_a_newcomer_out() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("db", "db", affinity=apart(ZONE, "web")))
        await world.settle()
        await world.apply(gang("web", "web", 2))
        await world.settle()
        db, one, other = await where(world, ["db-0", "web-0", "web-1"], ZONE)
        assert db != one == other

    in_world(scenario)


def test_k8_a_gang_that_is_kept_out_everywhere_says_so_and_comes_in_when_the_other_leaves() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        there = [resident(f"db-{number}", node, "db") for number, node in enumerate((nodes[0], nodes[-1]))]
        await world.apply([*there, *gang("web", "web", affinity=apart(ZONE, "db"))])
        await world.settle()
        assert await bound(world, "web") == {}
        assert "16 node(s) kept out by pod anti-affinity" in await said(world, "web")
        await world.delete("Pod", "db-0")
        await world.settle()
        assert len(await bound(world, "web")) == 1

    in_world(scenario)


def test_k8_a_gang_goes_where_the_pods_are_that_it_wants_to_be_near_to() -> None:
    async def scenario(world: World) -> None:
        node = sorted(each["metadata"]["name"] for each in await world.list("Node"))[-1]
        await world.apply([resident("cache", node, "cache"), *gang("web", "web", 4, 8, affinity=near(BLOCK, "cache"))])
        await world.settle()
        assert len(set(await where(world, ["cache", "web-0", "web-1", "web-2", "web-3"], BLOCK))) == 1

    in_world(scenario)


def test_k8_who_has_nobody_to_be_near_to_waits_until_there_is_somebody() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", affinity=near(RACK, "cache")))
        await world.settle()
        assert "no pod that it selects has a node" in await said(world, "web")
        await world.apply(gang("cache", "cache"))
        await world.settle()
        assert len(set(await where(world, ["cache-0", "web-0"], RACK))) == 1

    in_world(scenario)


def test_k8_somebody_whom_others_scheduled_ends_the_wait_as_well() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", affinity=near(HOST, "cache")))
        await world.settle()
        assert await bound(world, "web") == {}
        node = await first_node(world)
        await world.apply(resident("cache", node, "cache"))
        await world.settle()
        assert (await bound(world, "web"))["web-0"] == node

    in_world(scenario)


def test_k8_a_pod_that_becomes_what_is_wanted_is_somebody_to_be_near_to() -> None:
    async def scenario(world: World) -> None:
        node = await first_node(world)
        await world.apply([resident("cache", node, "old"), *gang("web", "web", affinity=near(HOST, "cache"))])
        await world.settle()
        assert await bound(world, "web") == {}
        await patch(world, "Pod", "cache", {"metadata": {"labels": {"app": "cache"}}})
        await world.settle()
        assert (await bound(world, "web"))["web-0"] == node

    in_world(scenario)


def test_k8_the_first_of_its_own_kind_goes_anywhere_and_the_next_one_follows() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("one", "web", gpus=8, affinity=near(ZONE, "web")))
        await world.settle()
        await world.apply(gang("two", "web", 7, 8, affinity=near(ZONE, "web")))
        await world.settle()
        names = ["one-0", *(f"two-{number}" for number in range(7))]
        assert len(set(await where(world, names, ZONE))) == 1
        await world.apply(gang("three", "web", affinity=near(ZONE, "web")))
        await world.settle()
        assert await bound(world, "three") == {}

    in_world(scenario)


def test_k8_pods_of_one_gang_that_want_to_be_near_each_other_are_kept_together() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", 3, 8, affinity=near(BLOCK, "web")))
        await world.settle()
        assert len(set(await where(world, ["web-0", "web-1", "web-2"], BLOCK))) == 1
        await world.apply(gang("big", "big", 5, 8, affinity=near(BLOCK, "big")))
        await world.settle()
        assert await bound(world, "big") == {}

    in_world(scenario)


def test_k17_pods_are_kept_together_by_a_label_that_is_no_level() -> None:
    async def scenario(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        for number, name in enumerate(nodes):
            await patch(world, "Node", name, {"metadata": {"labels": {"example.com/room": f"room-{number % 4}"}}})
        await world.settle()
        await world.apply(gang("web", "web", 3, 8, affinity=near("example.com/room", "web")))
        await world.settle()
        rooms = {nodes.index(name) % 4 for name in (await bound(world)).values()}
        assert len(await bound(world)) == 3
        assert len(rooms) == 1

    in_world(scenario)


def test_k17_pods_that_must_be_together_where_no_node_has_the_label_wait_and_say_so() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", 2, affinity=near("example.com/room", "web")))
        await world.settle()
        assert await bound(world) == {}
        assert "pod affinity" in await said(world, "web")

    in_world(scenario)


def test_k17_gangs_that_are_decided_in_one_cycle_keep_apart_and_follow_each_other() -> None:
    async def scenario(world: World) -> None:
        kept = [*gang("one", "one", 2), *gang("two", "two", 2, affinity=apart(ZONE, "one"))]
        await world.apply([*kept, *gang("three", "three", 2, affinity=near(RACK, "two"))])
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 6
        zones = [await domains(world, (await bound(world, name)).values(), ZONE) for name in ("one", "two")]
        assert not zones[0] & zones[1]
        racks = [await domains(world, (await bound(world, name)).values(), RACK) for name in ("two", "three")]
        assert racks[1] <= racks[0]

    in_world(scenario)


def spread(app: str) -> Json:
    labels = {"matchLabels": {"app": app}}
    one = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
    return {"topologySpreadConstraints": [one]}


def test_k17_the_pods_of_a_gang_are_spread_evenly() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", 4, **spread("web")))
        await world.settle()
        found = await where(world, [f"web-{one}" for one in range(4)], ZONE)
        assert len(await bound(world)) == 4
        assert {found.count(zone) for zone in found} == {2}

    in_world(scenario)


def test_k17_a_spread_that_counts_pods_of_others_waits_and_says_so() -> None:
    async def scenario(world: World) -> None:
        await world.apply([resident("old", await first_node(world), "web"), *gang("web", "web", 2, **spread("web"))])
        await world.settle()
        assert await bound(world, "web") in ({}, {"old": await first_node(world)})
        assert "it counts pods that are not of this part of the gang" in await said(world, "web")

    in_world(scenario)


def test_k17_too_many_terms_about_the_own_gang_are_refused() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": "web", "minMember": 1}, {"name": "db", "minMember": 1}]
        terms = [term(f"example.com/k{number}", "db") for number in range(17)]
        many = labelled("web", "a", "web", subgroup="web", affinity={"podAntiAffinity": {REQUIRED: terms}})
        await world.apply([podgroup("a", 2, subGroups=leaves), many, labelled("db", "a", "db", subgroup="db")])
        await world.settle()
        assert await bound(world) == {}
        assert "17 terms about pods of the same gang can not be honoured, at most 16 are" in await said(world, "a")

    in_world(scenario)


def test_k17_a_pod_follows_one_of_its_own_gang() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": "web", "minMember": 2}, {"name": "db", "minMember": 1}]
        webs = [labelled(f"web-{one}", "a", "web", 8, subgroup="web", affinity=near(ZONE, "db")) for one in range(2)]
        await world.apply([podgroup("a", 3, subGroups=leaves), *webs, labelled("db", "a", "db", 8, subgroup="db")])
        await world.settle()
        assert len(await bound(world)) == 3
        assert len(await domains(world, (await bound(world)).values(), ZONE)) == 1

    in_world(scenario)


def test_k17_pods_of_one_gang_that_differ_keep_apart_by_any_label() -> None:
    async def scenario(world: World) -> None:
        away = apart(RACK, "web")
        members = [labelled(f"web-{one}", "web", "web", one + 1, affinity=away) for one in range(3)]
        await world.apply([podgroup("web", 3), *members])
        await world.settle()
        assert len(await domains(world, (await bound(world)).values(), RACK)) == 3

    in_world(scenario)


def test_k17_parts_of_one_gang_keep_apart_by_any_label() -> None:
    async def scenario(world: World) -> None:
        leaves = [{"name": "web", "minMember": 1}, {"name": "db", "minMember": 1}]
        await world.apply(
            [
                podgroup("a", 2, subGroups=leaves),
                labelled("web", "a", "web", subgroup="web", affinity=apart(ZONE, "db")),
                labelled("db", "a", "db", subgroup="db"),
            ]
        )
        await world.settle()
        web, db = await where(world, ["web", "db"], ZONE)
        assert web != db

    in_world(scenario)


def test_k8_pods_beyond_the_minimum_heed_those_that_were_placed_just_now() -> None:
    async def scenario(world: World) -> None:
        members = [labelled(f"web-{one}", "web", "web", affinity=apart(ZONE, "web")) for one in range(3)]
        await world.apply([podgroup("web", 1), *members])
        await world.settle()
        nodes = await bound(world)
        assert len(nodes) == 2
        assert len(await domains(world, nodes.values(), ZONE)) == 2

    in_world(scenario)


def test_k8_namespaces_and_their_selector_are_heeded() -> None:
    async def scenario(world: World) -> None:
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        nodes = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        there = [resident(f"db-{number}", node, "db", "other") for number, node in enumerate((nodes[0], nodes[-1]))]
        await world.apply([*there, *gang("web", "web", affinity=apart(ZONE, "db"))])
        await world.settle()
        assert len(await bound(world, "web")) == 1
        await world.apply(gang("far", "far", affinity=apart(ZONE, "db", namespaceSelector={})))
        await world.settle()
        assert await bound(world, "far") == {}

    in_world(scenario)


def test_k8_wishes_about_other_pods_are_left_out() -> None:
    async def scenario(world: World) -> None:
        wish = [{"weight": 100, "podAffinityTerm": term(ZONE, "nobody")}]
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": wish}
        await world.apply(gang("web", "web", affinity={"podAffinity": preferred, "podAntiAffinity": preferred}))
        await world.settle()
        assert len(await bound(world, "web")) == 1

    in_world(scenario)


def test_k10_nobody_is_evicted_whom_the_gang_has_to_be_near_to() -> None:
    async def scenario(world: World) -> None:
        await world.apply([*CLASSES, podgroup("cache", 2, priorityClassName="low")])
        await world.apply([labelled(f"cache-{one}", "cache", "cache", 8) for one in range(2)])
        await world.settle()
        await world.apply(podgroup("web", 1, priorityClassName="high"))
        await world.apply(labelled("web-0", "web", "web", 8, affinity=near(ZONE, "cache")))
        await world.settle()
        assert set(await bound(world)) == {"cache-0", "cache-1"}

    in_world(scenario, nodes=ONE_RACK)


def _violations(pods: list[Json], labels: dict[str, dict[str, str]], departed: bool) -> list[str]:
    """What pods with nodes say of each other and is not so. The first of its kind may be alone, and who was left."""
    placed = [each for each in pods if each["spec"].get("nodeName")]
    found = []
    for one in placed:
        for kind, terms in (one["spec"].get("affinity") or {}).items():
            for said_of in terms[REQUIRED]:
                key, app = said_of["topologyKey"], said_of["labelSelector"]["matchLabels"]["app"]
                here = labels[one["spec"]["nodeName"]][key]
                others = [each for each in placed if each is not one and each["metadata"]["labels"]["app"] == app]
                beside = [each for each in others if labels[each["spec"]["nodeName"]][key] == here]
                first = one["metadata"]["labels"]["app"] == app
                alone = kind == "podAffinity" and not (beside or first or departed)
                if alone or (beside and kind == "podAntiAffinity"):
                    found.append(f"{one['metadata']['name']} {kind} {key} {app}")
    return found


@pytest.mark.parametrize("seed", range(8))
def test_k8_whatever_pods_say_of_each_other_holds_for_all_that_have_a_node(seed: int) -> None:
    dice = Random(seed)

    def wish() -> Json:
        key, app = dice.choice([HOST, RACK, BLOCK, ZONE]), dice.choice("abc")
        return dice.choice([{}, {}, apart(key, app), apart(key, app), near(key, app)])

    async def scenario(world: World) -> None:
        labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in await world.list("Node")}
        departed = False
        for number in range(24):
            await world.apply(gang(f"g{number}", dice.choice("abc"), dice.randint(1, 3), 1, affinity=wish()))
            if seed % 2 and number > 8 and dice.random() < 0.3:
                departed = True
                gone = dice.choice(sorted(await bound(world)))
                await world.delete("Pod", gone)
            if dice.random() < 0.5:
                await world.settle()
                assert _violations(await world.list("Pod"), labels, departed) == []
        await world.settle()
        assert _violations(await world.list("Pod"), labels, departed) == []
        assert len(await bound(world)) > 8

    in_world(scenario, seed=seed)
