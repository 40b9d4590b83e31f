"""The plan of a gang as recorded on its PodGroup: which pod goes to which node.

Decoding never guesses: text that is not a plan of a known version raises PlanError, and the caller discards the record.
The encoding is compact: node names and zones are written once, numbers as runs, uids as 16 bytes.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

import msgspec

from kube_apimachinery.name_validation import SUBDOMAIN_LIMIT
from spinney.api.meta import INT32_LIMIT

State = Literal["bind", "wait"]
VERSION = 1

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_RUN = re.compile(r"([0-9]{1,9})(?:([-*])([0-9]{1,9}))?", re.ASCII)
_NONE = -1
_LONGEST = 64


class PlanError(ValueError):
    """The text is not a plan that can be carried out."""


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """One pod's node. `segment` None: the pod is in no segment; `zone` "": no zone below the host."""

    uid: str
    node: str
    rank: int = 0
    segment: int | None = None
    zone: str = ""


class Move(msgspec.Struct, frozen=True, gc=False):
    """A pod that is evicted to free capacity, and the node where capacity is reserved for its replacement."""

    uid: str
    node: str


class Plan(msgspec.Struct, frozen=True):
    """`state` wait: victims and moved pods must be gone first. `victims` are pod uids."""

    epoch: int
    state: State
    assignments: tuple[Assignment, ...]
    domain: tuple[str, ...] = ()
    score: float = 1.0
    victims: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()

    @property
    def leaving(self) -> tuple[str, ...]:
        """The uids of all pods that must be gone first."""
        return (*self.victims, *(move.uid for move in self.moves))


class _Record(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The plan in columns, one entry per assignment."""

    v: int
    epoch: int
    state: str
    uids: str | list[str]
    names: list[str]
    node: str
    rank: str
    prefix: str = ""
    suffix: str = ""
    segment: str = ""
    zones: list[str] = []
    zone: str = ""
    domain: list[str] = []
    score: float = 1.0
    victims: str | list[str] = ""
    moved: str | list[str] = ""
    targets: list[str] = []


class _Version(msgspec.Struct, frozen=True):
    v: Any = None


def encode(plan: Plan) -> str:
    """One line of JSON; equal plans have equal texts."""
    assignments = plan.assignments
    nodes = list(dict.fromkeys(assignment.node for assignment in assignments))
    zones = list(dict.fromkeys(assignment.zone for assignment in assignments))
    segments = [_NONE if assignment.segment is None else assignment.segment for assignment in assignments]
    prefix, suffix = _shared(nodes)
    record = _Record(
        v=VERSION,
        epoch=plan.epoch,
        state=plan.state,
        uids=_pack([assignment.uid for assignment in assignments]),
        names=[name[len(prefix) : len(name) - len(suffix)] for name in nodes],
        node=write_runs(positions(nodes, [assignment.node for assignment in assignments])),
        rank=write_runs([assignment.rank for assignment in assignments]),
        prefix=prefix,
        suffix=suffix,
        segment="" if set(segments) <= {_NONE} else write_runs([segment + 1 for segment in segments]),
        zones=[] if zones == [""] else zones,
        zone=""
        if zones in ([], [""])
        else write_runs(positions(zones, [assignment.zone for assignment in assignments])),
        domain=list(plan.domain),
        score=plan.score,
        victims=_pack(plan.victims),
        moved=_pack([move.uid for move in plan.moves]),
        targets=[move.node for move in plan.moves],
    )
    return msgspec.json.encode(record).decode()


def decode(text: str) -> Plan:
    """The plan; raises PlanError."""
    try:
        version = msgspec.json.decode(text, type=_Version).v
        if version != VERSION or isinstance(version, bool):
            raise PlanError(f"the plan has version {_shown(version)}, expected {VERSION}")
        return _plan(msgspec.json.decode(text, type=_Record))
    except PlanError:
        raise
    except (ValueError, IndexError, RecursionError) as error:
        raise PlanError(f"the plan can not be read: {error}") from None


def _plan(record: _Record) -> Plan:
    uids = _unpack(record.uids)
    count = len(uids)
    if len(set(uids)) != count:
        raise PlanError("the plan assigns a pod twice")
    if not 0 <= record.epoch <= INT32_LIMIT:
        raise PlanError(f"the plan is of epoch {record.epoch}, expected 0 to {INT32_LIMIT}")
    names = _node_names(record)
    nodes = [names[place] for place in read_runs(record.node, count, "node")]
    ranks = read_runs(record.rank, count, "rank")
    segments = read_runs(record.segment, count, "segment") if record.segment else [0] * count
    zones = [record.zones[place] for place in read_runs(record.zone, count, "zone")] if record.zone else [""] * count
    columns = zip(uids, nodes, ranks, segments, zones, strict=True)
    return Plan(
        epoch=record.epoch,
        state=_state(record.state),
        assignments=tuple(
            [Assignment(uid, node, rank, at - 1 if at else None, zone) for uid, node, rank, at, zone in columns]
        ),
        domain=tuple(record.domain),
        score=record.score,
        victims=tuple(_unpack(record.victims)),
        moves=_moves(_unpack(record.moved), record.targets),
    )


def _node_names(record: _Record) -> list[str]:
    """Bounds prefix and suffix: they are repeated for each name, and the result could be far longer than the text."""
    if len(record.prefix) + len(record.suffix) > SUBDOMAIN_LIMIT:
        raise PlanError(f"the plan's node names have more than {SUBDOMAIN_LIMIT} characters")
    return [record.prefix + name + record.suffix for name in record.names]


def _moves(uids: list[str], targets: list[str]) -> tuple[Move, ...]:
    if len(uids) != len(targets):
        raise PlanError(f"the plan moves {len(uids)} pods to {len(targets)} places")
    return tuple([Move(uid, node) for uid, node in zip(uids, targets, strict=True)])


def _state(text: str) -> State:
    match text:
        case "bind":
            return "bind"
        case "wait":
            return "wait"
        case _:
            raise PlanError(f"the plan has state {_shown(text)}, expected bind or wait")


def _shared(names: Sequence[str]) -> tuple[str, str]:
    """The common prefix and suffix of all names, without overlap."""
    if len(names) < 2:
        return "", ""
    prefix = _beginning(names)
    return prefix, _beginning([name[len(prefix) :][::-1] for name in names])[::-1]


def _beginning(words: Sequence[str]) -> str:
    first, last = min(words), max(words)
    length = next((at for at, (mine, other) in enumerate(zip(first, last, strict=False)) if mine != other), len(first))
    return first[:length]


def positions(names: Sequence[str], values: Sequence[str]) -> list[int]:
    place = {name: index for index, name in enumerate(names)}
    return [place[value] for value in values]


def _pack(uids: Sequence[str]) -> str | list[str]:
    if not all(_UUID.fullmatch(uid) for uid in uids):
        return list(uids)
    return b64encode(bytes.fromhex("".join(uids).replace("-", ""))).decode()


def _unpack(packed: str | list[str]) -> list[str]:
    if isinstance(packed, list):
        return packed
    digits = b64decode(packed, validate=True).hex()
    if len(digits) % 32:
        raise PlanError("the plan's uids are cut short")
    return ["-".join((d[:8], d[8:12], d[12:16], d[16:20], d[20:])) for d in _chunks(digits, 32)]


def _chunks(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def write_runs(numbers: Sequence[int]) -> str:
    """`0*8,1*8,5-9,3`: runs of equal and of rising numbers, in order."""
    runs: list[str] = []
    at = 0
    equal = [(number, len(list(same))) for number, same in groupby(numbers)]
    while at < len(equal):
        number, times = equal[at]
        end = at
        while times == 1 and end + 1 < len(equal) and equal[end + 1] == (equal[end][0] + 1, 1):
            end += 1
        runs.append(f"{number}*{times}" if times > 1 else f"{number}-{equal[end][0]}" if end > at else str(number))
        at = end + 1
    return ",".join(runs)


def read_runs(text: str, count: int, column: str) -> list[int]:
    """Never yields more numbers than there are pods, whatever is written."""
    numbers: list[int] = []
    for run in text.split(",") if text else ():
        match = _RUN.fullmatch(run)
        if match is None:
            raise PlanError(f"the plan's {column} column has {_shown(run)}, expected a number or a run of numbers")
        first, sign, last = int(match[1]), match[2], int(match[3] or 0)
        size = last if sign == "*" else last - first + 1 if sign == "-" else 1
        if not 0 < size <= count - len(numbers):
            break
        numbers.extend([first] * size if sign == "*" else range(first, first + size))
    if len(numbers) != count:
        raise PlanError(f"the plan's {column} column does not fit its {count} pods")
    return numbers


def _shown(found: object) -> str:
    """Truncated: the text is untrusted, and it goes into events."""
    text = repr(found)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
