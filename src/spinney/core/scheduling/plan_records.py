"""Plan records: what counts as one, by signature, term of leadership and serial number.

A plan counts if a scheduler with the key wrote it, and it is neither copied nor replayed. What the plan says, and
whether it is still a good one, is not decided here but where it is resumed.

A signature covers the PodGroup (uid, namespace, name), the term of leadership, a serial number within the term, and the
text of the plan; without a plan it covers the epoch alone. Never raises on untrusted text.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from spinney.api.labels import EPOCH, PLAN, PLAN_SIGNATURE
from spinney.api.meta import INT32_LIMIT, ObjectMeta
from spinney.core.scheduling.plan import Plan, PlanError, decode, encode

KEY_BYTES = 32
"""The length of a key; shorter ones are refused."""

_DOMAIN = "spinney.dev/plan-signature v1"
_WRITTEN = re.compile(r"v1 ([0-9A-Za-z-]{1,64}) ([0-9]{1,18}) ([0-9a-f]{64})", re.ASCII)
_EPOCH = re.compile(r"[0-9]{1,10}", re.ASCII)
_NO_LEASE = "-"


class Term(msgspec.Struct, frozen=True):
    """A term of leadership: the uid of the Lease ("" without leader election) and the epoch.

    Epochs of two Leases cannot be compared.
    """

    lease: str = ""
    epoch: int = 0


NO_LEASE = Term()
"""Without leader election, and with no epoch yet."""


class Mark(msgspec.Struct, frozen=True):
    """Identifies a record: the `serial`th of a term."""

    term: Term
    serial: int


def sign(key: bytes, group: ObjectMeta, mark: Mark, text: str) -> dict[str, str | None]:
    """The annotations of a record; an empty text: there is no plan (any more), and the epoch stays."""
    lease = mark.term.lease or _NO_LEASE
    return {
        PLAN: text or None,
        EPOCH: str(mark.term.epoch),
        PLAN_SIGNATURE: f"v1 {lease} {mark.serial} {_mac(key, group, mark, text)}",
    }


def verify(keys: Iterable[bytes], group: ObjectMeta) -> Mark | None:
    """The identity of the record that the PodGroup has, or had last; None: no record signed with one of the keys."""
    mark, mac = _read(group)
    if mark is None:
        return None
    text = group.annotations.get(PLAN, "")
    is_genuine = any(hmac.compare_digest(mac, _mac(key, group, mark, text)) for key in keys)
    return mark if is_genuine else None


def is_signed(group: ObjectMeta) -> bool:
    """Whether a record has a well-formed signature; for callers that have no key to verify it."""
    return _read(group)[0] is not None


def claimed(group: ObjectMeta) -> Mark | None:
    """The record that the PodGroup claims to have; for callers that have no key and act on nothing."""
    epoch = read_epoch(group.annotations.get(EPOCH, ""))
    unsigned = Mark(Term("", epoch), 0) if epoch is not None else None
    return _read(group)[0] or unsigned


def _read(group: ObjectMeta) -> tuple[Mark | None, str]:
    found = _WRITTEN.fullmatch(group.annotations.get(PLAN_SIGNATURE, ""))
    epoch = read_epoch(group.annotations.get(EPOCH, ""))
    if found is None or epoch is None:
        return None, ""
    lease = "" if found[1] == _NO_LEASE else found[1]
    return Mark(Term(lease, epoch), int(found[2])), found[3]


def read_epoch(text: str) -> int | None:
    """An epoch as a Lease can hold it (int32); None: the text is not an epoch."""
    epoch = int(text) if _EPOCH.fullmatch(text) else -1
    return epoch if 0 <= epoch <= INT32_LIMIT else None


def _mac(key: bytes, group: ObjectMeta, mark: Mark, text: str) -> str:
    """Over a JSON list, so that different lists never give the same bytes."""
    term = mark.term
    covered = [_DOMAIN, group.uid, group.namespace, group.name, term.lease, term.epoch, mark.serial, text]
    return hmac.new(key, msgspec.json.encode(covered), hashlib.sha256).hexdigest()


UNSIGNED = "signature"
UNREADABLE = "unreadable"
REPLAYED = "replay"
UNLAWFUL = "unlawful"


class Superseded(Exception):
    """A later leader has written a record: this one's term is over."""


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that is not a valid plan. `reason`: one of a few fixed words; `message`: for users.

    `is_foreign`: it was written under another Lease, and it is not confirmed yet that ours is still the current one.
    `has_binder`: whoever wrote it may be about to bind its pods.
    """

    reason: str
    message: str
    is_foreign: bool = False
    has_binder: bool = False


class RecordReader(Protocol):
    """The source of recorded plans for a cycle."""

    @property
    def term(self) -> Term: ...

    def read(self, group: ObjectMeta) -> Plan | RejectedRecord | None:
        """The plan that a PodGroup has; None: it has none."""
        ...

    def is_taken_over(self, uid: str) -> bool:
        """Whether the plan of a PodGroup was recorded by an earlier leader and is not accepted yet."""
        ...

    def accept(self, uid: str) -> None:
        """Treat a plan that was taken over like one of ours from now on."""
        ...

    def forget(self, uid: str) -> None:
        """The PodGroup does not exist any more."""
        ...


class UnverifiedReader:
    """For what-if runs that have no key and only simulate what would be done.

    A record without a signature is rejected; any other is treated as taken over from an earlier leader: it is not
    continued if it does not fit, breaks rules, or names victims that no lawful decision names.
    """

    term = Term("", INT32_LIMIT)

    def read(self, group: ObjectMeta) -> Plan | RejectedRecord | None:
        if PLAN not in group.annotations:
            return None
        if not is_signed(group):
            return RejectedRecord(UNSIGNED, "its signature is missing")
        try:
            return decode(group.annotations[PLAN])
        except PlanError as error:
            return RejectedRecord(UNREADABLE, str(error))

    def is_taken_over(self, uid: str) -> bool:
        return True

    def accept(self, uid: str) -> None:
        """Nothing to remember: every record is reviewed whenever it is read."""

    def forget(self, uid: str) -> None:
        """Nothing to forget."""


class PlanRecords:
    """The plan records of one term. `keys`: the first one signs, all verify."""

    def __init__(self, keys: Sequence[bytes], term: Term) -> None:
        if not keys or any(len(key) < KEY_BYTES for key in keys):
            found = [len(key) for key in keys]
            raise ValueError(f"keys for records have {found} bytes, expected at least one, each of {KEY_BYTES} or more")
        self._keys = tuple(keys)
        self._term = term
        self._serial = 0
        self._inherited: dict[str, Mark | None] = {}  # what PodGroups had when the term began, by uid
        self._accepted: set[str] = set()  # those of them whose plans were reviewed and accepted
        self._issued: dict[str, int] = {}  # the last serial issued for a PodGroup, by uid
        self._current: dict[str, int] = {}  # the serial of the record that a PodGroup is known to have, by uid
        self._ended: dict[str, int] = {}  # the last serial that is completed or given up, by uid

    @property
    def term(self) -> Term:
        return self._term

    def inherit(self, groups: Iterable[ObjectMeta]) -> None:
        """Start the term: existing records may be taken over; records of earlier terms that appear later may not."""
        self._inherited = {group.uid: verify(self._keys, group) for group in groups if PLAN in group.annotations}

    def read(self, group: ObjectMeta) -> Plan | RejectedRecord | None:
        """The plan that a PodGroup has; None: it has none. Raises `Superseded` if a later leader has written it."""
        mark = verify(self._keys, group)
        if mark is not None and mark.term.lease == self.term.lease and mark.term.epoch > self.term.epoch:
            name = f"{group.namespace}/{group.name}"
            raise Superseded(f"PodGroup {name} has a record of epoch {mark.term.epoch}, ours is {self.term.epoch}")
        if PLAN not in group.annotations:
            self._close(group.uid)
            return None
        return self._judge(group, mark)

    def _judge(self, group: ObjectMeta, mark: Mark | None) -> Plan | RejectedRecord:
        uid, is_inherited = group.uid, group.uid in self._inherited
        if mark is None:
            message = "its signature is missing or not that of this scheduler for this PodGroup"
            return RejectedRecord(UNSIGNED, message, has_binder=is_inherited)
        if mark.term == self.term:
            if not self._ended.get(uid, 0) < mark.serial <= self._issued.get(uid, 0):
                return RejectedRecord(REPLAYED, "it was carried out or given up before")
            self._open(uid, mark.serial)
        elif not is_inherited or self._inherited[uid] != mark:
            is_foreign = mark.term.lease != self.term.lease
            message = f"it is of an earlier leader (epoch {mark.term.epoch}) and was not there when this one began"
            return RejectedRecord(REPLAYED, message, is_foreign=is_foreign, has_binder=True)
        try:
            plan = decode(group.annotations[PLAN])
        except PlanError as error:
            return RejectedRecord(UNREADABLE, str(error), has_binder=is_inherited)
        if plan.epoch != mark.term.epoch:
            return RejectedRecord(UNREADABLE, f"it is of epoch {plan.epoch}, and its PodGroup says {mark.term.epoch}")
        return plan

    def seal(self, group: ObjectMeta, plan: Plan) -> tuple[int, dict[str, str | None]]:
        """A new record of this term: its serial number, and its annotations."""
        self._serial += 1
        self._issued[group.uid] = self._serial
        return self._serial, sign(self._keys[0], group, Mark(self.term, self._serial), encode(plan))

    def unseal(self, group: ObjectMeta) -> dict[str, str | None]:
        """The annotations of a PodGroup whose plan is removed."""
        return sign(self._keys[0], group, Mark(self.term, self._serial), "")

    def recorded(self, uid: str, serial: int) -> None:
        """A record of ours was written to its PodGroup."""
        self._open(uid, serial)

    def dropped(self, uid: str) -> None:
        """The record of a PodGroup was removed."""
        self._close(uid)

    def is_taken_over(self, uid: str) -> bool:
        return uid in self._inherited and uid not in self._accepted

    def accept(self, uid: str) -> None:
        self._accepted.add(uid)

    def forget(self, uid: str) -> None:
        """The PodGroup does not exist any more."""
        self._disinherit(uid)
        for known in (self._issued, self._current, self._ended):
            known.pop(uid, None)

    def _disinherit(self, uid: str) -> None:
        self._inherited.pop(uid, None)
        self._accepted.discard(uid)

    def _open(self, uid: str, serial: int) -> None:
        """Records with a lower serial number are completed or given up."""
        self._disinherit(uid)
        self._current[uid] = serial
        self._ended[uid] = max(self._ended.get(uid, 0), serial - 1)

    def _close(self, uid: str) -> None:
        self._disinherit(uid)
        serial = self._current.pop(uid, 0)
        if serial:
            self._ended[uid] = max(self._ended.get(uid, 0), serial)


def next_epoch(keys: Sequence[bytes], groups: Iterable[ObjectMeta]) -> int:
    """The epoch after all that schedulers with these keys have recorded; used where there is no leader election."""
    marks = [verify(keys, group) for group in groups]
    return min(INT32_LIMIT, 1 + max((mark.term.epoch for mark in marks if mark is not None), default=0))
