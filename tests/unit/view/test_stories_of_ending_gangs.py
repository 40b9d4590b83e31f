"""What is said of a gang none of whose pods goes on."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.view.explanation import explain_gang

GROUP = msgspec.convert({"metadata": {"name": "a", "namespace": "ns"}, "spec": {"queue": "q"}}, PodGroup)


def _pod(name: str, phase: str, **metadata: Any) -> Pod:
    body = {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": {"nodeName": "n"}}
    return msgspec.convert({**body, "status": {"phase": phase}}, Pod)


def _said(*pods: Pod) -> tuple[str, tuple[str, ...]]:
    found = explain_gang(GROUP, pods, {}, {})
    return found.state, found.lines


def test_k15_a_gang_whose_pods_are_all_ending_is_not_said_to_have_had_none() -> None:
    leaving = _pod("p", "Running", deletionTimestamp="2026-01-01T00:00:00Z")
    assert _said(leaving, _pod("q", "Failed")) == ("NotReady", ("all its pods are ending",))
    assert _said(_pod("q", "Failed")) == ("Finished", ("all its pods have ended",))
    assert _said() == ("NotReady", ("it has no pods yet",))


def test_a_gang_of_thousands_of_nested_sub_groups_is_told_of_in_a_moment() -> None:
    """Admission refuses it; what came past admission must not keep the pages from everybody else."""
    nested = [{"name": f"s{number}", "parent": f"s{number - 1}" if number else None} for number in range(8000)]
    group = msgspec.convert({"metadata": {"name": "a", "namespace": "ns"}, "spec": {"subGroups": nested}}, PodGroup)
    pods = [_pod(f"p{number}", "Running", labels={"kai.scheduler/subgroup-name": "s7999"}) for number in range(50)]
    began = time.process_time()
    story = explain_gang(group, pods, {}, {})
    assert time.process_time() - began < 2.0
    assert [place.pods for place in story.places if place.group == "s7999"] == [50]
