"""Reading: get, list, pages, and what refusals become."""

from __future__ import annotations

import pickle

import pytest

from spinney.drive.client.api import Selection
from spinney.drive.client.codec import Broken
from spinney.drive.client.errors import (
    AlreadyExists,
    ApiStatusError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotSent,
    Policy,
    ServerError,
    Status,
    TooManyRequests,
    TransportError,
    Unauthorized,
    Undecodable,
    status_error,
)
from spinney.drive.client.http.transport import Response
from spinney.drive.client.paths import ResourcePath
from unit.drive.drive_kit import NODES, PODS, THINGS, Scripted, Thing, reader, refusal, reply, thing


def page(names: list[str], version: str = "9", following: str = "") -> dict[str, object]:
    items = [{"metadata": {"name": name, "namespace": "ns"}} for name in names]
    return {
        "kind": "ThingList",
        "apiVersion": "test.dev/v1",
        "metadata": {"resourceVersion": version, "continue": following},
        "items": items,
    }


async def test_an_object_is_read_as_a_struct_or_as_plain_values() -> None:
    transport = Scripted(reply(thing("a", 3)), reply(thing("a", 3)))
    client = reader(transport)
    assert await client.get(THINGS.ref("a", "ns"), Thing) == thing("a", 3)
    assert (await client.get(THINGS.ref("a", "ns")))["metadata"]["resourceVersion"] == "3"
    assert transport.asked[0].path == "/apis/test.dev/v1/namespaces/ns/things/a"


async def test_a_list_joins_its_pages_and_keeps_their_version() -> None:
    transport = Scripted(reply(page(["a", "b"], following="t1")), reply(page(["c"])))
    listing = await reader(transport, page_limit=2).list(Selection(THINGS, labels="x=y"))
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c"]
    assert listing.version == "9"
    assert [asked.query for asked in transport.asked] == [
        {"labelSelector": "x=y", "limit": "2"},
        {"labelSelector": "x=y", "limit": "2", "continue": "t1"},
    ]


async def test_a_list_whose_version_is_forgotten_between_pages_starts_again() -> None:
    transport = Scripted(
        reply(page(["a", "gone"], "5", "t1")),
        refusal(410, "Expired"),
        reply(page(["a"], "8", "t2")),
        reply(page(["b"], "8")),
    )
    listing = await reader(transport, page_limit=2).list(Selection(THINGS))
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.version == "8"


async def test_a_list_that_is_forgotten_again_and_again_gives_up() -> None:
    answers = [answer for _ in range(4) for answer in (reply(page(["a"], "5", "t")), refusal(410, "Expired"))]
    with pytest.raises(Gone):
        await reader(Scripted(*answers)).list(Selection(THINGS))


async def test_items_of_an_untyped_list_know_their_kind() -> None:
    listing = await reader(Scripted(reply(page(["a"])))).list(Selection(THINGS))
    assert (listing.items[0]["kind"], listing.items[0]["apiVersion"]) == ("Thing", "test.dev/v1")


async def test_an_empty_list_may_have_null_items() -> None:
    body = {"metadata": {"resourceVersion": "4"}, "items": None}
    assert (await reader(Scripted(reply(body))).list(Selection(THINGS))).items == ()


BAD = {"metadata": {"name": "odd", "namespace": "ns", "uid": "u", "resourceVersion": "3"}, "color": 7}


async def test_an_object_of_another_shape_is_left_out_of_a_list_and_told_once() -> None:
    told: list[str] = []
    body = {"metadata": {"resourceVersion": "4"}, "items": [thing("a", 1), BAD]}
    client = reader(Scripted(reply(body), reply(body)))
    client.unreadable.listen(lambda complaint: told.append(str(complaint)))
    for _ in range(2):
        listing = await client.list(Selection(THINGS), Thing)
        assert [item.metadata.name for item in listing.items] == ["a"]
        assert [broken.key for broken in listing.broken] == [("ns", "odd")]
    assert told == ["things.test.dev ns/odd can not be read: Expected `str`, got `int` - at `$.color`"]
    assert not client.unreadable.has_any  # nobody would say when it is gone


async def test_an_object_that_can_be_done_without_is_told_where_it_can_not_be_read() -> None:
    client = reader(Scripted(reply(BAD), reply(thing("a", 1)), refusal(404, "NotFound", "none")))
    told: list[str] = []
    client.unreadable.listen(lambda complaint: told.append(complaint.thing.key[1]))
    assert isinstance(await client.look_up(THINGS.ref("odd", "ns"), Thing), Broken)
    assert isinstance(await client.look_up(THINGS.ref("a", "ns"), Thing), Thing)
    assert await client.look_up(THINGS.ref("b", "ns"), Thing) is None
    assert told == ["odd"]


@pytest.mark.parametrize("body", [b"{", b"7", b'{"metadata": 7}'])
async def test_an_answer_that_is_no_object_at_all_is_an_error(body: bytes) -> None:
    with pytest.raises(Undecodable):
        await reader(Scripted(Response(200, {}, body))).look_up(THINGS.ref("a", "ns"), Thing)


@pytest.mark.parametrize(
    ("code", "reason", "kind", "policy"),
    [
        (400, "BadRequest", BadRequest, Policy.OUR_BUG),
        (401, "Unauthorized", Unauthorized, Policy.TELL_USER),
        (403, "Forbidden", Forbidden, Policy.TELL_USER),
        (404, "NotFound", NotFound, Policy.RETRY_LATER),
        (409, "Conflict", Conflict, Policy.RETRY_NOW),
        (409, "AlreadyExists", AlreadyExists, Policy.RETRY_NOW),
        (410, "Expired", Gone, Policy.RETRY_NOW),
        (422, "Invalid", Invalid, Policy.TELL_USER),
        (429, "TooManyRequests", TooManyRequests, Policy.RETRY_LATER),
        (500, "InternalError", ServerError, Policy.RETRY_LATER),
        (302, "", ApiStatusError, Policy.TELL_USER),
    ],
)
def test_the_class_of_a_refusal_says_what_to_do(
    code: int, reason: str, kind: type[ApiStatusError], policy: Policy
) -> None:
    error = status_error(Status(code=code, reason=reason))
    assert type(error) is kind
    assert error.policy is policy


async def test_a_refusal_names_the_request_and_the_servers_words() -> None:
    with pytest.raises(Forbidden, match=r"GET /api/v1/nodes/n: 403 you may not"):
        await reader(Scripted(refusal(403, "Forbidden", "you may not"))).get(NODES.ref("n"))


async def test_a_refusal_without_a_status_body_still_has_its_code() -> None:
    answer = reply({}, 502)
    with pytest.raises(ServerError, match="502"):
        await reader(Scripted(answer, answer, answer)).get(NODES.ref("n"))


async def test_a_read_is_repeated_when_the_server_is_busy_or_the_connection_breaks() -> None:
    transport = Scripted(refusal(429, headers={"retry-after": "0"}), TransportError("reset"), reply(thing("a", 1)))
    assert await reader(transport).get(THINGS.ref("a", "ns"), Thing) == thing("a", 1)
    assert len(transport.asked) == 3


async def test_a_wait_longer_than_our_patience_is_not_waited() -> None:
    transport = Scripted(refusal(429, headers={"retry-after": "3600"}))
    with pytest.raises(TooManyRequests) as caught:
        await reader(transport).get(THINGS.ref("a", "ns"))
    assert caught.value.retry_after_s == 3600


async def test_a_server_out_of_reach_is_the_transports_error() -> None:
    with pytest.raises(NotSent):
        await reader(Scripted(*[NotSent("refused")] * 3)).get(THINGS.ref("a", "ns"))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a%2fb", "a?b", "a#b", "a b", "a\nb"])
def test_a_name_that_leads_elsewhere_makes_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="expected a name"):
        PODS.ref(name, "ns").path()
    with pytest.raises(ValueError, match="expected"):
        PODS.ref("p", name).path()


def test_paths_are_those_of_kubernetes() -> None:
    assert PODS.ref("p", "ns").path("binding") == "/api/v1/namespaces/ns/pods/p/binding"
    assert NODES.ref("n").path("status") == "/api/v1/nodes/n/status"
    assert THINGS.collection() == "/apis/test.dev/v1/things"
    assert str(ResourcePath("apps", "v1", "deployments").ref("d", "ns")) == "deployments.apps ns/d"


def test_a_namespace_on_a_cluster_scoped_resource_is_refused() -> None:
    with pytest.raises(ValueError, match="cluster-scoped"):
        NODES.ref("n", "ns").path()


def test_errors_survive_being_sent_between_processes() -> None:
    error = status_error(Status(code=429, message="slow down"), about="GET /x", retry_after_s=2.0)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.retry_after_s) == (TooManyRequests, str(error), 2.0)
