"""What is said of a gang none of whose pods goes on."""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.view.story import gang_story

GROUP = msgspec.convert({"metadata": {"name": "a", "namespace": "ns"}, "spec": {"queue": "q"}}, PodGroup)


def _pod(name: str, phase: str, **metadata: Any) -> Pod:
    body = {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": {"nodeName": "n"}}
    return msgspec.convert({**body, "status": {"phase": phase}}, Pod)


def _said(*pods: Pod) -> tuple[str, tuple[str, ...]]:
    found = gang_story(GROUP, pods, {}, {})
    return found.state, found.lines


def test_k15_a_gang_whose_pods_are_all_ending_is_not_said_to_have_had_none() -> None:
    leaving = _pod("p", "Running", deletionTimestamp="2026-01-01T00:00:00Z")
    assert _said(leaving, _pod("q", "Failed")) == ("NotReady", ("all its pods are ending",))
    assert _said(_pod("q", "Failed")) == ("Finished", ("all its pods have ended",))
    assert _said() == ("NotReady", ("it has no pods yet",))
