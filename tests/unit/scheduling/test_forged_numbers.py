"""Annotations of ours with numbers that nobody of ours has written: as if they were not there."""

from __future__ import annotations

import msgspec
import pytest

from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.scheduling.gang.members import Shortage, shortage

FORGED = ["default=" + "9" * 5000, "default=\u0663", "default=-1", "=1", "default", ",,"]


def gang(members: str) -> PodGroup:
    metadata = {"name": "g", "namespace": "ns", "annotations": {"spinney.dev/members": members}}
    return msgspec.convert({"metadata": metadata, "spec": {"minMember": 2}}, PodGroup)


def runner() -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {}}, Pod)


@pytest.mark.parametrize("members", FORGED)
def test_members_that_were_never_counted_are_not_believed(members: str) -> None:
    assert shortage(gang(members), [runner()], lambda name: True) == Shortage(1, 2)


def test_members_that_were_counted_are() -> None:
    assert shortage(gang("default=1"), [runner()], lambda name: True) is None
