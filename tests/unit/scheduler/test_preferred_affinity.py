"""Preferred pod affinity: below topology, above best fit, and never a reason not to be placed (K17)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from spinney.sim.world import World
from unit.operator.topologies import HOST, RACK, ZONE
from unit.scheduler.preemption_world import ONE_RACK
from unit.scheduler.scheduler_world import bound, domains, in_world, podgroup, said
from unit.scheduler.test_affinity import gang, labelled, resident, term

Json = dict[str, Any]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def prefers(kind: str, key: str, app: str, weight: int = 100, **more: Any) -> Json:
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term(key, app, **more)}]}}


def apart(key: str, app: str, **more: Any) -> Json:
    return prefers("podAntiAffinity", key, app, **more)


def near(key: str, app: str, **more: Any) -> Json:
    return prefers("podAffinity", key, app, **more)


async def spread_of(world: World, prefix: str, level: str) -> list[int]:
    """How many pods the domains hold that hold any, the fullest first."""
    return sorted((await domains(world, (await bound(world, prefix)).values(), level)).values(), reverse=True)


def test_k17_pods_that_prefer_hosts_of_their_own_get_them() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", 4, affinity=apart(HOST, "web")))
        await world.settle()
        assert len(set((await bound(world, "web")).values())) == 4

    in_world(scenario)


def test_k17_without_the_preference_they_share_one_host() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", 4))
        await world.settle()
        assert len(set((await bound(world, "web")).values())) == 1

    in_world(scenario)


def test_k17_a_preferred_level_goes_before_a_preferred_term() -> None:
    async def scenario(world: World) -> None:
        group = podgroup("web", 4, preferred=HOST)
        await world.apply([group, *gang("web", "web", 4, affinity=apart(HOST, "web"))[1:]])
        await world.settle()
        assert len(set((await bound(world, "web")).values())) == 1

    in_world(scenario)


def test_k17_the_preference_holds_within_a_required_level() -> None:
    async def scenario(world: World) -> None:
        group = podgroup("web", 2, required=RACK)
        await world.apply([group, *gang("web", "web", 2, affinity=apart(HOST, "web"))[1:]])
        await world.settle()
        assert await spread_of(world, "web", RACK) == [2]
        assert len(set((await bound(world, "web")).values())) == 2

    in_world(scenario)


def test_k17_more_pods_than_hosts_are_spread_evenly() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", 6, affinity=apart(HOST, "web")))
        await world.settle()
        assert sorted(Counter((await bound(world, "web")).values()).values()) == [3, 3]

    in_world(scenario, nodes=ONE_RACK)


def test_k17_a_preference_that_cannot_be_kept_keeps_nobody_out() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("web", "web", 16, affinity=near(HOST, "web")))
        await world.settle()
        assert len(await bound(world, "web")) == 16

    in_world(scenario, nodes=ONE_RACK)


def test_k17_pods_go_where_those_are_that_they_prefer() -> None:
    async def scenario(world: World) -> None:
        node = sorted(each["metadata"]["name"] for each in await world.list("Node"))[-1]
        await world.apply([resident("db", node, "db"), *gang("web", "web", affinity=near(RACK, "db"))])
        await world.settle()
        db, web = [await domains(world, [each], RACK) for each in (node, (await bound(world))["web-0"])]
        assert db == web

    in_world(scenario)


def test_k17_of_domains_the_one_with_more_preferred_pods_wins() -> None:
    async def scenario(world: World) -> None:
        names = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        there = [resident("a", names[0], "db"), resident("b", names[-1], "db"), resident("c", names[-1], "db")]
        await world.apply([*there, *gang("web", "web", affinity=near(HOST, "db"))])
        await world.settle()
        assert (await bound(world, "web"))["web-0"] == names[-1]

    in_world(scenario)


def test_k17_the_heavier_preference_wins() -> None:
    async def scenario(world: World) -> None:
        names = sorted(each["metadata"]["name"] for each in await world.list("Node"))
        there = [resident("a", names[0], "db"), resident("b", names[-1], "cache")]
        terms = [{"weight": weight, "podAffinityTerm": term(HOST, app)} for weight, app in ((10, "db"), (20, "cache"))]
        await world.apply([*there, *gang("web", "web", affinity={"podAffinity": {PREFERRED: terms}})])
        await world.settle()
        assert (await bound(world, "web"))["web-0"] == names[-1]

    in_world(scenario)


def test_k17_pods_rather_keep_away_from_those_that_run() -> None:
    async def scenario(world: World) -> None:
        await world.apply(gang("db", "db"))
        await world.settle()
        await world.apply(gang("web", "web", affinity=apart(ZONE, "db")))
        await world.settle()
        found = await bound(world)
        assert await domains(world, [found["db-0"]], ZONE) != await domains(world, [found["web-0"]], ZONE)

    in_world(scenario)


def test_k17_parts_of_a_gang_keep_to_each_other_where_they_can() -> None:
    async def scenario(world: World) -> None:
        parts = [{"name": name, "minMember": 1} for name in ("a", "b")]
        pods = [
            labelled("web-a", "web", "a", 8, subgroup="a"),
            labelled("web-b", "web", "b", 8, subgroup="b", affinity=apart(ZONE, "a")),
        ]
        await world.apply([podgroup("web", 2, subGroups=parts), *pods])
        await world.settle()
        assert await spread_of(world, "web", ZONE) == [1, 1]

    in_world(scenario)


def test_k17_a_spread_that_may_be_broken_is_kept_where_it_can() -> None:
    async def scenario(world: World) -> None:
        constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
        constraint["labelSelector"] = {"matchLabels": {"app": "web"}}
        await world.apply(gang("web", "web", 4, topologySpreadConstraints=[constraint]))
        await world.settle()
        assert await spread_of(world, "web", ZONE) == [2, 2]

    in_world(scenario)


def test_k17_a_preference_about_namespaces_that_are_not_known_is_left_out() -> None:
    async def scenario(world: World) -> None:
        selector = {"matchLabels": {"team": "a"}}
        await world.apply(gang("web", "web", 2, affinity=apart(HOST, "web", namespaceSelector=selector)))
        await world.settle()
        assert len(set((await bound(world, "web")).values())) == 1, await said(world, "web")

    in_world(scenario)
