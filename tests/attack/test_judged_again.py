"""Records that came past admission, by whatever means: dropped, told, and never acted on.

An administrator writes them here, whom admission lets through, as it would anybody while it is not installed.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from attack.forging import PLAN, Caught, own_gang, record, to_bind, to_wait, victim_uids, waiting_gang
from attack.harm import SCRIPT, Before
from attack.table import MARKS, Row, Table, carry_out
from attack.tenants import FREE, FULL, GROUPS, LABELLED, TAINTED, Attempt, make
from cluster_kit.server import Reply, eventually
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan_records import Mark, Term, sign
from unit.scheduler.scheduler_world import pod, podgroup

Json = dict[str, Any]
pytestmark = MARKS
table = Table()
_NEST = 50_000


def forge(at: Attempt, name: str, annotations: Json) -> Reply:
    """Past admission."""
    return at.admin.patch(GROUPS, name, {"metadata": {"annotations": annotations}})


def dropped(at: Attempt, name: str, annotations: Json) -> Reply:
    """The forged record goes, and an event on its PodGroup says why."""
    reply = forge(at, name, annotations)

    def is_gone() -> bool:
        found = at.admin.get(GROUPS, name).ok(200)["metadata"].get("annotations") or {}
        return found.get(PLAN) != annotations[PLAN]

    eventually(is_gone, f"the forged plan of {name} is dropped", 20)
    eventually(lambda: rejections(at, name), f"{name} is told so", 20)
    return reply


def rejections(at: Attempt, name: str) -> list[str]:
    chosen = f"involvedObject.kind=PodGroup,involvedObject.name={name}"
    found = at.admin.list("events", fieldSelector=chosen)["items"]
    return [each["message"] for each in found if each["reason"] == "RecordRejected"]


def stays_waiting(at: Attempt, name: str) -> None:
    assert not at.admin.get("pods", name).ok(200)["spec"].get("nodeName"), f"{name} is bound"


# Plans


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan that binds a pod to a node which its selector excludes."""
    uids = waiting_gang(at, "excluded", nodeSelector={"example.com/for": "others"})
    reply = dropped(at, "excluded", record(to_bind(uids, FREE[0])))
    stays_waiting(at, "excluded-0")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan that binds a pod to a tainted node."""
    uids = waiting_gang(at, "tainted")
    reply = dropped(at, "tainted", record(to_bind(uids, TAINTED)))
    stays_waiting(at, "tainted-0")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan that binds a pod to a full node."""
    uids = waiting_gang(at, "full")
    reply = dropped(at, "full", record(to_bind(uids, FULL[0])))
    stays_waiting(at, "full-0")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan that waits for all pods of another tenant to be moved."""
    uids = waiting_gang(at, "mover", nodeSelector={"kubernetes.io/hostname": LABELLED})
    plan = to_wait(uids, FULL[0], [], victim_uids(at), FREE[0])
    reply = dropped(at, "mover", record(plan))
    stays_waiting(at, "mover-0")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan that names all pods of another tenant as victims."""
    uids = waiting_gang(at, "killer")
    reply = dropped(at, "killer", record(to_wait(uids, FULL[0], victim_uids(at), [], "")))
    stays_waiting(at, "killer-0")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan whose seats are pods of another tenant."""
    waiting_gang(at, "seats")
    return dropped(at, "seats", record(to_bind(victim_uids(at), FREE[0])))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A real plan, put back after it was carried out."""
    caught = Caught(at)
    own_gang(at, "replayed")
    kept = caught.record_of("replayed")
    at.admin.delete("pods", "replayed-0", gracePeriodSeconds=0).ok(200)
    return dropped(at, "replayed", kept)


@table.harmless()
def _(at: Attempt) -> Reply:
    """A real plan of another PodGroup."""
    caught = Caught(at)
    own_gang(at, "origin")
    kept = caught.record_of("origin")
    waiting_gang(at, "copy")
    reply = dropped(at, "copy", kept)
    stays_waiting(at, "copy-0")
    return reply


@table.harmless()
def _(at: Attempt) -> Reply:
    """A real plan with another node in it."""
    caught = Caught(at)
    own_gang(at, "changed")
    kept = caught.record_of("changed")
    uid = at.admin.get("pods", "changed-0").ok(200)["metadata"]["uid"]
    return dropped(at, "changed", {**kept, PLAN: to_bind([uid], TAINTED)})


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan that was signed with an empty key, for the right PodGroup."""
    uids = waiting_gang(at, "keyless")
    found = msgspec.convert(at.admin.get(GROUPS, "keyless").ok(200)["metadata"], ObjectMeta)
    reply = dropped(at, "keyless", sign(b"", found, Mark(Term("", 1), 1), to_bind(uids, TAINTED)))
    stays_waiting(at, "keyless-0")
    return reply


EMPTY: Json = {"v": 1, "epoch": 1, "state": "bind", "uids": [], "names": [], "node": "", "rank": ""}
GARBAGE = {
    "of 250 KiB of nothing": "x" * 250_000,
    "nested 50,000 deep": "[" * _NEST,
    "nested deep inside": '{"v":1,"epoch":' + "[" * _NEST + "]" * _NEST + "}",
    "of a version of 200,000 digits": '{"v":' + "9" * 200_000 + "}",
    "with runs of a billion": json.dumps({**EMPTY, "uids": ["a"], "names": ["n"], "node": "0*999999999", "rank": "0"}),
    "with names that grow": json.dumps({**EMPTY, "names": ["a"] * 10_000, "prefix": "p" * 100_000}),
    "of an epoch beyond 64 bits": json.dumps({**EMPTY, "epoch": 10**20}),
    "of nothing": "",
    "that is a script": SCRIPT,
}


def _garbage(text: str) -> Any:
    def send(at: Attempt) -> Reply:
        waiting_gang(at, "garbage")
        if not text:
            return forge(at, "garbage", record(text))
        return dropped(at, "garbage", record(text))

    return send


for _title, _text in GARBAGE.items():
    table.rows.append(Row(f"A plan {_title}", _garbage(_text), pages=("/", "/gangs", "/gangs/attacker/garbage")))


# Epochs

EPOCHS = {
    "beyond what a Lease can hold": "4000000000",
    "of 5,000 digits": "9" * 5000,
    "of the far future": "2147483647",
    "below zero": "-1",
    "in other digits": "٣٣٣",
    "that is no number": "NaN",
}


def _epoch(text: str) -> Any:
    def send(at: Attempt) -> Reply:
        waiting_gang(at, "epoch")
        return forge(at, "epoch", {"spinney.dev/epoch": text, "spinney.dev/fenced": text})

    return send


for _title, _text in EPOCHS.items():
    table.rows.append(Row(f"An epoch {_title}", _epoch(_text)))


@table.harmless()
def _(at: Attempt) -> Reply:
    """A plan that fits, of an epoch in the far future."""
    uids = waiting_gang(at, "future")
    reply = dropped(at, "future", record(to_bind(uids, FREE[0], 2**31 - 1), str(2**31 - 1)))
    stays_waiting(at, "future-0")
    return reply


# Everything else that we write and read

OTHERS = {
    "A tie to another tenant's gang": {"tied-to": "victims/serving-0,kubernetes.io/hostname"},
    "A tie to itself": {"tied-to": "odd,kubernetes.io/hostname"},
    "A tie of 200,000 characters": {"tied-to": "a" * 200_000 + ",b"},
    "Members beyond counting": {"members": "default=" + "9" * 5000},
    "Members that are nobody": {"members": "=,=,default=\u0663"},
    "An explanation that is a script": {"explanation": f'{{"version": 1, "state": "{SCRIPT}", "lines": ["{SCRIPT}"]}}'},
    "An explanation that nests": {"explanation": "[" * 200_000},
    "An explanation with a huge number": {"explanation": '{"version": ' + "9" * 5000 + "}"},
    "A score that is no number": {"placement-score": "nan"},
    "A score of 5,000 digits": {"placement-score": "9" * 5000},
    "A wish to consolidate everything": {"consolidate": "9" * 5000},
    "Mirrored keys of ours": {"mirrored": ",".join(f"spinney.dev/{number}" for number in range(10_000))},
}


def _other(annotations: Json) -> Any:
    def send(at: Attempt) -> Reply:
        at.create(GROUPS, podgroup("odd")).ok(201)
        reply = forge(at, "odd", {f"spinney.dev/{key}": value for key, value in annotations.items()})
        make(at.home, [pod(f"odd-{number}", "odd", 1) for number in range(2)])
        return reply

    return send


for _title, _annotations in OTHERS.items():
    table.rows.append(Row(_title, _other(_annotations), pages=("/", "/gangs", "/gangs/attacker/odd")))


ON_PODS = {
    "A rank of 5,000 digits": {"rank": "9" * 5000},
    "A rank in other digits": {"rank": "\u0663"},
    "A segment of 5,000 digits": {"segment": "9" * 5000},
    "A domain that is a script": {"domain": SCRIPT, "zone": SCRIPT, "released": SCRIPT, "node-keys": SCRIPT},
}


def _on_pod(annotations: Json) -> Any:
    def send(at: Attempt) -> Reply:
        """On a member that runs, so that those who join it are numbered beside it."""
        own_gang(at, "ranked")
        written = {f"spinney.dev/{key}": value for key, value in annotations.items()}
        reply = at.admin.patch("pods", "ranked-0", {"metadata": {"annotations": written}})
        make(at.home, [pod("ranked-1", "ranked", 1)])

        def joined() -> bool:
            return bool(at.admin.get("pods", "ranked-1").ok(200)["spec"].get("nodeName"))

        eventually(joined, "a further member is bound", 20)
        return reply

    return send


for _title, _annotations in ON_PODS.items():
    table.rows.append(Row(_title, _on_pod(_annotations), pages=("/", "/gangs", "/gangs/attacker/ranked")))


@table.harmless()
def _(at: Attempt) -> Reply:
    """Absurd times since when a gang is stale and has run."""
    own_gang(at, "timed", 2)
    at.admin.delete("pods", "timed-1", gracePeriodSeconds=0).ok(200)
    stamps = {"stale-podgroup-timestamp": "999999-99-99T99:99:99Z", "last-start-timestamp": "-" + "9" * 5000}
    return at.patch(
        GROUPS, "timed", {"metadata": {"annotations": {f"kai.scheduler/{k}": v for k, v in stamps.items()}}}
    )


@pytest.mark.parametrize("row", table.parameters())
def test_records_are_judged_again_when_they_are_read(row: Row, attempt: Attempt, before: Before) -> None:
    carry_out(row, attempt, before)
