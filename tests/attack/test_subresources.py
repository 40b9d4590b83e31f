"""Subresources of pods that admission is never asked about: neither server writes a mark through them.

Nothing of ours admits anything here; what an installation does with them is tried where too much is granted.
"""

from __future__ import annotations

import copy

import pytest

from cluster_kit.objects import pod
from cluster_kit.server import PATCH_TYPES, Server
from cluster_kit.space import Space

UNASKED = ("resize", "ephemeralcontainers")
FORGED = {"spinney.dev/rank": "7", "pod-group-name": "others"}
NOT_SERVED = (404, 405)


@pytest.mark.parametrize("way", ["merge", "update"])
@pytest.mark.parametrize("sub", UNASKED)
def test_a_mark_does_not_pass_a_subresource_without_admission(sub: str, way: str, space: Space) -> None:
    made = space.create("pods", pod("marked", annotations={"mine": "1"}, labels={"mine": "1"})).ok(201)
    marks = {"annotations": {"mine": "1", **FORGED}, "labels": {"mine": "1", **FORGED}}
    path = space.path("pods", "marked", sub)
    if way == "update":
        body = copy.deepcopy(made)
        body["metadata"] |= marks
        reply = space.server.http("PUT", path, body)
    else:
        reply = space.server.http("PATCH", path, {"metadata": marks}, headers={"Content-Type": PATCH_TYPES[way]})
    now = space.get("pods", "marked").ok(200)["metadata"]
    assert (now["annotations"], now["labels"]) == ({"mine": "1"}, {"mine": "1"})
    assert reply.status in _expected(space.server), reply.message


def _expected(server: Server) -> tuple[int, ...]:
    """The embedded server serves neither."""
    return (200,) if server.kind == "real" else NOT_SERVED
