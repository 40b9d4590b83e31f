"""Events and leases."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import event, lease, merged
from cluster_kit.space import Space


def test_an_event_is_stored_as_it_is(space: Space) -> None:
    made = space.create("events", event("e", space.namespace, count=3, firstTimestamp="2026-01-01T00:00:00Z")).ok(201)
    assert (made["reason"], made["type"], made["count"]) == ("Started", "Normal", 3)
    assert (made["reportingComponent"], made["reportingInstance"], made["source"]) == ("", "", {})


def test_an_event_is_the_same_in_both_groups(space: Space) -> None:
    space.create("events", event("e", space.namespace, source={"component": "robot"}, count=2)).ok(201)
    seen = space.get("events.k8s.io/v1/events", "e").ok()
    assert (seen["apiVersion"], seen["kind"]) == ("events.k8s.io/v1", "Event")
    assert seen["regarding"]["name"] == "p"
    assert seen["note"] == "it started"
    assert (seen["deprecatedCount"], seen["deprecatedSource"]) == (2, {"component": "robot"})


NEW: dict[str, Any] = {
    "metadata": {"name": "n"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "example.com/robot",
    "reportingInstance": "robot-1",
    "action": "Binding",
    "reason": "Scheduled",
    "type": "Normal",
    "note": "done",
}


def new(space: Space, **change: Any) -> dict[str, Any]:
    return merged({**NEW, "regarding": {"kind": "Pod", "namespace": space.namespace, "name": "p"}}, change)


def test_an_event_of_the_new_group_is_seen_in_the_old(space: Space) -> None:
    space.create("events.k8s.io/v1/events", new(space)).ok(201)
    seen = space.get("events", "n").ok()
    assert (seen["involvedObject"]["name"], seen["message"]) == ("p", "done")
    assert (seen["reportingComponent"], seen["action"]) == ("example.com/robot", "Binding")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no controller": ({"reportingController": ""}, "reportingController"),
    "no instance": ({"reportingInstance": ""}, "reportingInstance"),
    "no action": ({"action": ""}, "action"),
    "no reason": ({"reason": ""}, "reason"),
    "no time": ({"eventTime": None}, "eventTime"),
    "a type that is none": ({"type": "Loud"}, "type"),
    "a note too long": ({"note": "x" * 1025}, "message"),
}


@pytest.mark.parametrize("row", BAD)
def test_a_bad_event_of_the_new_group_is_refused(row: str, space: Space) -> None:
    change, field = BAD[row]
    refused = space.create("events.k8s.io/v1/events", new(space, **change)).refused(422, "Invalid")
    assert field in [each for _, each in refused.causes], refused.causes


def test_an_event_belongs_to_the_namespace_of_its_object(space: Space) -> None:
    refused = space.create("events", event("e", "other")).refused(422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "involvedObject.namespace")]


def test_an_event_series_is_counted(space: Space) -> None:
    made = space.create("events", event("e", space.namespace)).ok(201)
    now = space.patch("events", "e", {"count": 5, "lastTimestamp": "2026-01-01T00:00:00Z"}, "strategic").ok(200)
    assert (made.get("count"), now["count"]) == (None, 5)


def test_a_lease_is_renewed_by_its_holder(space: Space) -> None:
    seen = space.create("leases", lease("l", acquireTime="2026-01-01T00:00:00.000000Z")).ok(201)
    assert seen["spec"]["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    now = space.replace("leases", merged(seen, {"spec": {"renewTime": "2026-01-01T00:00:05.123456Z"}})).ok(200)
    assert now["spec"]["renewTime"] == "2026-01-01T00:00:05.123456Z"


BAD_LEASES: dict[str, tuple[dict[str, Any], str]] = {
    "no duration": ({"leaseDurationSeconds": 0}, "spec.leaseDurationSeconds"),
    "negative transitions": ({"leaseTransitions": -1}, "spec.leaseTransitions"),
}


@pytest.mark.parametrize("row", BAD_LEASES)
def test_a_bad_lease_is_refused(row: str, space: Space) -> None:
    change, field = BAD_LEASES[row]
    refused = space.create("leases", lease("l", **change)).refused(422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", field)]


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z", "now"])
def test_times_of_a_lease_must_have_microseconds(time: str, space: Space) -> None:
    space.create("leases", lease("l", renewTime=time)).refused(400, "BadRequest", "parsing time")
