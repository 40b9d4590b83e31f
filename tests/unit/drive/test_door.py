"""The one door: what goes over the wire, what comes back as an outcome, what is repeated and what is remembered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import (
    Deleted,
    Exists,
    FieldConflict,
    Gone,
    Outcome,
    Refused,
    RetryLater,
    Stale,
    Unknown,
    Written,
    written,
)
from spinney.drive.apply.write import ANY, Precondition
from spinney.drive.client.errors import (
    Conflict,
    Invalid,
    NotSent,
    TooManyRequests,
    TransportError,
    TransportTimeout,
)
from spinney.drive.client.http.transport import Response
from spinney.drive.client.informers.cache import OwnWrites, Pending
from unit.drive.drive_kit import HASTY, PODS, THINGS, Scripted, refusal, reply

REF = THINGS.ref("a", "ns")
POD = PODS.ref("p", "ns")
GIVEN = Precondition("u1", "7")
OBJECT = {"kind": "Thing", "metadata": {"name": "a", "namespace": "ns", "uid": "u1", "resourceVersion": "8"}}
SUCCESS = {"kind": "Status", "metadata": {}, "status": "Success", "code": 201}


def door(transport: Scripted, **more: Any) -> Door:
    return Door(transport, random.Random(1), field_manager="tester", retry_policy=HASTY, **more)


async def sent(call: Callable[[Door], Awaitable[Outcome]], answer: Response | None = None) -> Any:
    transport = Scripted(answer or reply(OBJECT))
    await call(door(transport))
    return transport.asked[0]


async def test_a_create_posts_the_object_under_its_name() -> None:
    asked = await sent(lambda d: d.create(REF, {"kind": "Thing", "spec": 1}))
    assert (asked.method, asked.path) == ("POST", "/apis/test.dev/v1/namespaces/ns/things")
    assert asked.query == {"fieldManager": "tester"}
    assert asked.body == {"kind": "Thing", "spec": 1, "metadata": {"name": "a", "namespace": "ns"}}


async def test_an_apply_is_a_forced_patch_by_our_field_manager_with_its_precondition() -> None:
    asked = await sent(lambda d: d.apply(REF, {"spec": 1}, GIVEN, subresource="status"))
    assert (asked.method, asked.path) == ("PATCH", "/apis/test.dev/v1/namespaces/ns/things/a/status")
    assert asked.query == {"fieldManager": "tester", "force": "true"}
    assert asked.headers["content-type"] == "application/apply-patch+yaml"
    assert asked.body["metadata"] == {"name": "a", "namespace": "ns", "uid": "u1", "resourceVersion": "7"}


async def test_an_apply_with_a_version_but_no_uid_is_refused_for_it_could_create() -> None:
    with pytest.raises(ValueError, match="without uid"):
        await door(Scripted()).apply(REF, {}, Precondition(resource_version="7"))


async def test_a_json_patch_guards_itself_before_its_operations() -> None:
    asked = await sent(lambda d: d.json_patch(REF, [{"op": "remove", "path": "/spec"}], GIVEN))
    assert asked.headers["content-type"] == "application/json-patch+json"
    assert asked.body == [
        {"op": "replace", "path": "/metadata/uid", "value": "u1"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/spec"},
    ]


async def test_a_merge_patch_carries_its_precondition_in_the_metadata() -> None:
    asked = await sent(lambda d: d.merge_patch(REF, {"metadata": {"labels": {"a": "b"}}}, GIVEN))
    assert asked.headers["content-type"] == "application/merge-patch+json"
    assert asked.body == {"metadata": {"labels": {"a": "b"}, "uid": "u1", "resourceVersion": "7"}}


async def test_status_and_scale_go_to_their_subresources() -> None:
    status = await sent(lambda d: d.status(REF, {"ready": 1}, ANY))
    assert (status.path.rpartition("/")[2], status.body) == ("status", {"status": {"ready": 1}})
    scale = await sent(lambda d: d.scale(REF, 3, GIVEN))
    assert scale.path.rpartition("/")[2] == "scale"
    assert scale.body == {"spec": {"replicas": 3}, "metadata": {"uid": "u1", "resourceVersion": "7"}}


async def test_a_bind_names_the_pod_by_uid_and_version() -> None:
    asked = await sent(lambda d: d.bind(POD, "node-1", GIVEN, annotations={"k": "v"}), reply(SUCCESS, 201))
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert asked.query == {}  # nobody owns what a bind sets, and the embedded server knows the plain bind by it
    assert asked.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "annotations": {"k": "v"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }


async def test_an_eviction_carries_its_precondition_in_the_delete_options() -> None:
    asked = await sent(lambda d: d.evict(POD, GIVEN, grace_s=5), reply(SUCCESS, 201))
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/ns/pods/p/eviction")
    assert asked.body["deleteOptions"]["preconditions"] == {"uid": "u1", "resourceVersion": "7"}
    assert asked.body["deleteOptions"]["gracePeriodSeconds"] == 5


async def test_a_delete_carries_precondition_propagation_and_grace() -> None:
    asked = await sent(lambda d: d.delete(REF, GIVEN, propagation="Foreground", grace_s=0))
    assert (asked.method, asked.path) == ("DELETE", "/apis/test.dev/v1/namespaces/ns/things/a")
    assert asked.body == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u1", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }


async def test_a_dry_run_says_so_and_leaves_no_own_write() -> None:
    own = OwnWrites()
    expectations = own.expectations(THINGS)
    transport = Scripted(reply(OBJECT))
    await door(transport, own_writes=own).merge_patch(REF, {}, ANY, dry_run=True)
    assert transport.asked[0].query["dryRun"] == "All"
    assert expectations.pending == {}


def test_an_empty_precondition_is_refused() -> None:
    with pytest.raises(ValueError, match="or ANY"):
        Precondition()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (reply(OBJECT), Written),
        (Response(200, {}, b"<html>proxy</html>"), Unknown),
        (refusal(404, "NotFound"), Gone),
        (refusal(409, "Conflict"), Stale),
        (refusal(409, "AlreadyExists"), Exists),
        (refusal(409, "Conflict", causes=[{"reason": "FieldManagerConflict", "field": ".spec"}]), FieldConflict),
        (refusal(422, "Invalid", causes=[{"reason": "FieldValueInvalid", "field": "spec.x"}]), Refused),
        (refusal(422, "Invalid", causes=[{"reason": "FieldValueInvalid", "field": "metadata.uid"}]), Stale),
        (refusal(403, "Forbidden"), Refused),
        (refusal(400, "BadRequest"), Refused),
        (refusal(500, "InternalError"), Unknown),
        (refusal(504, "Timeout"), Unknown),
        (refusal(503, "ServiceUnavailable"), RetryLater),
        (TransportTimeout("late"), Unknown),
        (TransportError("reset"), Unknown),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_each_answer_is_one_outcome(answer: Response | Exception, outcome: type[Outcome]) -> None:
    assert type(await door(Scripted(answer)).json_patch(REF, [], GIVEN)) is outcome


@pytest.mark.parametrize(
    ("metadata", "outcome"),
    [
        ({"uid": "u1", "resourceVersion": "9", "finalizers": ["x/y"]}, Written),
        ({"uid": "u1", "resourceVersion": "9", "deletionGracePeriodSeconds": 30}, Written),
        ({"uid": "u1", "resourceVersion": "9", "deletionGracePeriodSeconds": 0}, Deleted),
        ({"uid": "u1", "resourceVersion": "9"}, Deleted),
    ],
    ids=["finalizer", "grace", "no grace", "nothing"],
)
async def test_a_deleted_object_is_gone_unless_something_keeps_it(
    metadata: dict[str, Any], outcome: type[Outcome]
) -> None:
    answer = reply({"kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}})
    assert type(await door(Scripted(answer)).delete(POD, ANY)) is outcome


async def test_a_status_of_success_after_a_delete_means_gone() -> None:
    answer = reply({"kind": "Status", "status": "Success", "metadata": {}, "details": {"uid": "u1"}})
    assert await door(Scripted(answer)).delete(REF, ANY) == Deleted("u1")


class TestRepetition:
    async def test_a_write_that_never_left_is_repeated(self) -> None:
        transport = Scripted(NotSent("refused"), reply(OBJECT))
        assert isinstance(await door(transport).create(REF, {}), Written)

    async def test_a_server_that_stays_out_of_reach_means_not_now(self) -> None:
        outcome = await door(Scripted(*[NotSent("refused")] * 3)).create(REF, {})
        assert isinstance(outcome, RetryLater)

    async def test_a_busy_server_is_asked_again_after_the_time_it_names(self) -> None:
        transport = Scripted(refusal(429, headers={"retry-after": "0"}), reply(OBJECT))
        assert isinstance(await door(transport).create(REF, {}), Written)

    async def test_a_busy_server_is_told_to_the_caller_in_the_end(self) -> None:
        outcome = await door(Scripted(*[refusal(429, headers={"retry-after": "0"})] * 3)).create(REF, {})
        assert isinstance(outcome, RetryLater)

    async def test_an_eviction_that_a_budget_forbids_is_not_repeated(self) -> None:
        transport = Scripted(refusal(429, "TooManyRequests", headers={"retry-after": "10"}))
        outcome = await door(transport).evict(POD, GIVEN)
        assert isinstance(outcome, RetryLater)
        assert outcome.retry_after_s == 10

    @pytest.mark.parametrize(
        "write",
        [
            lambda d: d.create(REF, {}),
            lambda d: d.json_patch(REF, [], ANY),
            lambda d: d.merge_patch(REF, {}, GIVEN),
            lambda d: d.apply(REF, {}, GIVEN),
            lambda d: d.bind(POD, "n", GIVEN),
            lambda d: d.evict(POD, GIVEN),
        ],
        ids=["create", "json patch", "merge patch at a version", "apply at a version", "bind", "evict"],
    )
    async def test_a_write_that_may_have_happened_is_never_repeated(
        self, write: Callable[[Door], Awaitable[Outcome]]
    ) -> None:
        transport = Scripted(TransportError("reset"), reply(OBJECT))
        assert isinstance(await write(door(transport)), Unknown)
        assert len(transport.asked) == 1

    @pytest.mark.parametrize(
        "write",
        [
            lambda d: d.merge_patch(REF, {}, ANY),
            lambda d: d.apply(REF, {}, Precondition(uid="u1")),
            lambda d: d.delete(REF, GIVEN),
            lambda d: d.create(REF, {}, dry_run=True),
        ],
        ids=["merge patch", "apply", "delete", "dry run"],
    )
    async def test_a_write_for_which_twice_is_once_is_repeated(
        self, write: Callable[[Door], Awaitable[Outcome]]
    ) -> None:
        transport = Scripted(TransportError("reset"), reply(OBJECT))
        assert isinstance(await write(door(transport)), Written | Deleted)


class TestMemory:
    """What the door tells the caches."""

    @pytest.mark.parametrize(
        ("answer", "pending"),
        [
            (reply(OBJECT), Pending(at_least=8)),
            (reply(SUCCESS, 201), Pending(at_least=8, is_older=True)),
            (TransportTimeout("late"), Pending(unsure=True)),
            (refusal(500), Pending(unsure=True)),
            (refusal(409, "Conflict"), None),
            (refusal(422, "Invalid"), None),
            (refusal(404, "NotFound"), None),
        ],
        ids=["object", "status after a version", "timeout", "500", "stale", "refused", "gone"],
    )
    async def test_own_writes_are_remembered_as_far_as_they_are_known(
        self, answer: Response | Exception, pending: Pending | None
    ) -> None:
        own = OwnWrites()
        expectations = own.expectations(PODS)
        await door(Scripted(answer), own_writes=own).bind(POD, "n", GIVEN)
        assert expectations.pending.get(POD.key) == pending

    async def test_a_status_answer_without_a_version_to_count_from_leaves_us_unsure(self) -> None:
        own = OwnWrites()
        expectations = own.expectations(PODS)
        await door(Scripted(reply(SUCCESS, 201)), own_writes=own).bind(POD, "n", Precondition(uid="u1"))
        assert expectations.pending == {POD.key: Pending(unsure=True)}

    async def test_an_eviction_leaves_us_unsure_for_it_need_not_have_changed_anything(self) -> None:
        own = OwnWrites()
        expectations = own.expectations(PODS)
        await door(Scripted(reply(SUCCESS, 201)), own_writes=own).evict(POD, GIVEN)
        assert expectations.pending == {POD.key: Pending(unsure=True)}

    async def test_a_removal_is_remembered_by_uid(self) -> None:
        own = OwnWrites()
        expectations = own.expectations(THINGS)
        answer = reply({"kind": "Status", "status": "Success", "details": {"uid": "u1"}})
        await door(Scripted(answer), own_writes=own).delete(REF, ANY)
        assert expectations.pending == {REF.key: Pending(absent_uid="u1")}

    async def test_a_generated_name_is_remembered_as_the_server_chose_it(self) -> None:
        own = OwnWrites()
        expectations = own.expectations(THINGS)
        transport = Scripted(reply(OBJECT))
        await door(transport, own_writes=own).create(THINGS.ref("", "ns"), {"metadata": {"generateName": "g-"}})
        assert transport.asked[0].body["metadata"] == {"generateName": "g-", "namespace": "ns"}
        assert list(expectations.pending) == [REF.key]

    async def test_a_write_that_was_interrupted_leaves_us_unsure(self) -> None:
        class Hanging(Scripted):
            async def request(self, *args: Any, **kwargs: Any) -> Response:
                await asyncio.Event().wait()
                raise AssertionError

        own = OwnWrites()
        expectations = own.expectations(THINGS)
        task = asyncio.create_task(door(Hanging(), own_writes=own).create(REF, {}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert expectations.pending == {REF.key: Pending(unsure=True)}


async def test_nothing_is_sent_once_we_may_not_write() -> None:
    def may_write() -> None:
        raise PermissionError

    transport = Scripted()
    with pytest.raises(PermissionError):
        await door(transport, may_write=may_write).create(REF, {})
    assert transport.asked == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(409, "Conflict"), Conflict),
        (refusal(422, "Invalid"), Invalid),
        (refusal(429, headers={"retry-after": "90"}), TooManyRequests),
        (TransportTimeout("late"), TransportTimeout),
    ],
)
async def test_a_caller_without_a_plan_gets_the_error_tree(
    answer: Response | Exception, error: type[Exception]
) -> None:
    outcome = await door(Scripted(answer)).create(REF, {})
    with pytest.raises(error):
        written(outcome)
