"""The way up from a pod: who is read, what is taken for gone, and what may not be seen."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from spinney.core.grouping.owner_chain import InvalidFieldError, Pod
from spinney.drive.client.api import ApiClient
from spinney.drive.client.http.transport import Response
from spinney.drive.grouper.owner_resolver import FRESH_S, Expired, OwnerResolver

Json = dict[str, Any]
KINDS = {
    "/api/v1": {"Pod": "pods"},
    "/apis/batch/v1": {"Job": "jobs"},
    "/apis/example.com/v1": {"Plan": "plans"},
    "/apis/grove.io/v1alpha1": {"PodCliqueSet": "podcliquesets"},
}


class Server:
    """Answers GETs of paths; what it does not know is not found."""

    def __init__(self, objects: Mapping[str, Json | int]) -> None:
        self.objects = dict(objects)
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **rest: Any) -> Response:
        self.asked.append(path)
        if path in KINDS:
            listed = [{"kind": kind, "name": name, "namespaced": True} for kind, name in KINDS[path].items()]
            return self._answer(200, {"resources": [*listed, {"kind": "Scale", "name": "jobs/scale"}]})
        found = self.objects.get(path, 404)
        return self._answer(found, {}) if isinstance(found, int) else self._answer(200, found)

    def stream(self, path: str, **rest: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def _answer(self, status: int, body: Json) -> Response:
        return Response(status, {}, msgspec.json.encode(body))


class StillClock:
    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s


def thing(name: str, *owners: Json, **metadata: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": owners, **metadata}}


def above(kind: str, name: str, api_version: str = "batch/v1", uid: str = "") -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or f"uid-{name}"}


def member(*owners: Json, **metadata: Any) -> Pod:
    return msgspec.convert(thing("p", *owners, **metadata), Pod)


def walk_on(objects: Mapping[str, Json | int]) -> tuple[OwnerResolver, Server, StillClock]:
    server, clock = Server(objects), StillClock()
    return OwnerResolver(ApiClient(server, Random(0)), clock), server, clock


JOB = "/apis/batch/v1/namespaces/ns/jobs/j"
PLAN = above("Plan", "plan", "example.com/v1")
PLAN_PATH = "/apis/example.com/v1/namespaces/ns/plans/plan"


async def test_k2_the_top_owner_is_the_last_one_that_nobody_owns() -> None:
    walk, _, _ = walk_on({JOB: thing("j", PLAN), PLAN_PATH: thing("plan")})
    chain = await walk.chain(member(above("Job", "j")))
    assert [str(owner) for owner in chain.owners] == ["Job ns/j", "Plan ns/plan"]


async def test_k2_of_several_owners_of_a_pod_the_controller_counts() -> None:
    walk, _, _ = walk_on({JOB: thing("j")})
    chain = await walk.chain(member(above("Plan", "x", "example.com/v1"), above("Job", "j") | {"controller": True}))
    assert str(chain.top) == "Job ns/j"


async def test_k2_several_owners_of_an_owner_are_a_mistake() -> None:
    walk, _, _ = walk_on({JOB: thing("j", PLAN, above("Plan", "b", "example.com/v1"))})
    with pytest.raises(InvalidFieldError, match=r'Job ns/j: metadata.ownerReferences: found \["Plan plan", "Plan b"\]'):
        await walk.chain(member(above("Job", "j")))


async def test_k2_an_owner_of_another_uid_is_expired() -> None:
    walk, _, _ = walk_on({JOB: thing("j")})
    with pytest.raises(Expired, match="Job j is another object now"):
        await walk.chain(member(above("Job", "j", uid="older")))


async def test_k2_an_owner_that_is_not_there_is_expired() -> None:
    walk, _, _ = walk_on({})
    with pytest.raises(Expired, match="Job j is gone"):
        await walk.chain(member(above("Job", "j")))


@pytest.mark.parametrize("top", [403, None])
async def test_k2_an_owner_that_we_may_not_see_ends_the_walk(top: int | None) -> None:
    hidden = PLAN if top else above("Ghost", "g", "example.com/v1")
    walk, _, _ = walk_on({JOB: thing("j", hidden), **({PLAN_PATH: top} if top else {})})
    chain = await walk.chain(member(above("Job", "j")))
    assert (str(chain.top), chain.hidden) == ("Job ns/j", f"{hidden['kind']} {hidden['name']}")
    assert (await walk.chain(member(hidden))).is_bare


async def test_k2_owners_are_read_once_in_a_while() -> None:
    walk, server, clock = walk_on({JOB: thing("j")})
    for _ in range(3):
        await walk.chain(member(above("Job", "j")))
    assert server.asked == ["/apis/batch/v1", JOB]
    clock.time_s = FRESH_S
    await walk.chain(member(above("Job", "j")))
    assert server.asked == ["/apis/batch/v1", JOB, JOB]


FORGED = [
    above("Nosuch", "j", "nosuch/v1", uid="uid-j"),
    above("Job", "other", uid="uid-j"),
    above("Job", "j") | {"apiVersion": "example.com/v1"},
]


@pytest.mark.parametrize("forged", FORGED, ids=lambda owner: f"{owner['apiVersion']}:{owner['name']}")
@pytest.mark.parametrize("namespace", ["ns", "theirs"])
@pytest.mark.parametrize("first", ["forged", "true"])
async def test_k2_a_pod_that_claims_the_uid_of_another_owner_changes_nothing_for_others(
    forged: Json, namespace: str, first: str
) -> None:
    resolver, _, _ = walk_on({JOB: thing("j")})

    async def claims() -> str:
        try:
            chain = await resolver.chain(member(forged, namespace=namespace))
        except Expired:
            return ""
        return str(chain.top)

    said = await claims() if first == "forged" else None
    for _ in range(2):
        chain = await resolver.chain(member(above("Job", "j")))
        assert (str(chain.top), chain.hidden) == ("Job ns/j", "")
    said = await claims() if said is None else said
    assert said != "Job ns/j"


async def test_k2_an_owner_of_the_same_name_in_another_namespace_is_another() -> None:
    resolver, _, _ = walk_on({JOB: thing("j")})
    await resolver.chain(member(above("Job", "j")))
    with pytest.raises(Expired, match="Job j is gone"):
        await resolver.chain(member(above("Job", "j"), namespace="theirs"))


async def test_k2_an_owner_whose_uid_is_spelled_like_a_gang_is_not_taken_for_it() -> None:
    """Uids of owner references are free text."""
    gang = "/apis/scheduler.grove.io/v1alpha1/namespaces/ns/podgangs/g"
    owners = "/apis/grove.io/v1alpha1/namespaces/ns/podcliquesets/s"
    resolver, _, _ = walk_on({owners: thing("s"), gang: thing("g")})
    await resolver.chain(member(above("Nosuch", "g", "nosuch/v1", uid="ns/g")))
    named = member(above("PodCliqueSet", "s", "grove.io/v1alpha1"), labels={"grove.io/podgang": "g"})
    assert str((await resolver.chain(named)).gang) == "PodGang ns/g"


async def test_k2_owners_that_own_each_other_are_a_mistake() -> None:
    walk, _, _ = walk_on({JOB: thing("j", above("Job", "j"))})
    with pytest.raises(InvalidFieldError, match="an end within 16 owners"):
        await walk.chain(member(above("Job", "j")))


async def test_k2_the_gang_that_a_pod_of_a_set_names_is_read_with_it() -> None:
    gang = "/apis/scheduler.grove.io/v1alpha1/namespaces/ns/podgangs/g"
    owners = "/apis/grove.io/v1alpha1/namespaces/ns/podcliquesets/s"
    walk, server, _ = walk_on({owners: thing("s"), gang: thing("g")})
    named = member(above("PodCliqueSet", "s", "grove.io/v1alpha1"), labels={"grove.io/podgang": "g"})
    chain = await walk.chain(named)
    assert chain.gang is not None
    assert str(chain.gang) == "PodGang ns/g"
    del server.objects[gang]
    walk, _, _ = walk_on({owners: thing("s")})
    assert (await walk.chain(named)).gang is None
