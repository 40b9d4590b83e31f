"""The rule of the init container: parents are counted by label, Ready and of this gang."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.cli.commands.initc import missing, parent_of
from spinney.core.expansion.podclique.desired_pod import Parent
from spinney.core.expansion.podclique.pod_state import Pod


def _pod(clique: str, ready: bool = True, **metadata: Any) -> Pod:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    body = {
        "metadata": {"name": f"{clique}-x", "labels": {"grove.io/podclique": clique}, **metadata},
        "status": {"phase": "Running", "conditions": conditions},
    }
    return msgspec.convert(body, Pod)


def test_g1_a_parent_is_up_when_enough_of_its_pods_are_ready() -> None:
    parents = [Parent("a", 2), Parent("b", 1)]
    assert missing(parents, [_pod("a"), _pod("a", ready=False)]) == ["a 1/2", "b 0/1"]
    assert missing(parents, [_pod("a"), _pod("a"), _pod("b")]) == []


def test_g1_a_pod_of_a_clique_whose_name_begins_alike_is_no_parent() -> None:
    assert missing([Parent("d-0-a", 1)], [_pod("d-0-a-b")]) == ["d-0-a 0/1"]


def test_g1_a_leaving_pod_does_not_count() -> None:
    assert missing([Parent("a", 1)], [_pod("a", deletionTimestamp="2026-01-01T00:00:00Z")]) == ["a 0/1"]


def test_parents_are_read_from_the_words_of_the_operator() -> None:
    assert parent_of("d-0-a:3") == Parent("d-0-a", 3)
    with pytest.raises(ValueError, match="expected NAME:MIN"):
        parent_of("d-0-a")
