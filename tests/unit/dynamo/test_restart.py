"""A restart goes from component to component, or to all at once, and is told until it is done."""

from __future__ import annotations

from typing import Any

from spinney.core.expansion.dynamo.deployment import restart_of
from unit.dynamo.dynamo_kit import Json, component, deployment


def asked(**strategy: Any) -> Json:
    restart = {"id": "r", **({"strategy": strategy} if strategy else {})}
    return deployment("d", component("a"), component("b"), component("c"), restart=restart)


def test_nothing_asked_keeps_the_marks_that_are_there() -> None:
    found = restart_of(deployment("d", component("a")), {"a": "old"}, (), True)
    assert (found.marks, found.status) == ({"a": "old"}, None)


def test_one_after_the_other_in_the_order_asked_for() -> None:
    obj = asked(order=["c"])
    first = restart_of(obj, {"a": "old"}, (), True)
    assert first.marks == {"a": "old", "c": "r"}
    assert first.status == {"observedID": "r", "phase": "Restarting", "inProgress": ["c"]}
    assert restart_of(obj, first.marks, (), False).marks == first.marks
    assert restart_of(obj, first.marks, {"c"}, True).marks == first.marks
    second = restart_of(obj, first.marks, (), True)
    assert second.marks == {"a": "r", "c": "r"}
    last = restart_of(obj, {"a": "r", "b": "r", "c": "r"}, (), True)
    assert last.status == {"observedID": "r", "phase": "Completed"}


def test_all_at_once_if_asked_for() -> None:
    found = restart_of(asked(type="Parallel"), {}, (), True)
    assert found.marks == {"a": "r", "b": "r", "c": "r"}
    assert found.status is not None
    assert found.status["inProgress"] == ["a", "b", "c"]


def test_what_is_completed_stays_so_whatever_happens_later() -> None:
    obj = asked()
    obj["status"] = {"restart": {"observedID": "r", "phase": "Completed"}}
    found = restart_of(obj, {"a": "r", "b": "r", "c": "r"}, {"a"}, False)
    assert found.status == {"observedID": "r", "phase": "Completed"}
