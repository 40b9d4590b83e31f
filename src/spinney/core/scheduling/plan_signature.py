"""Signatures of plans: a valid one proves that a scheduler with the key wrote the plan, for this PodGroup and no other.

A signature covers the PodGroup (uid, namespace, name), the term of leadership, a serial number within the term, and the
text of the plan; without a plan it covers the epoch alone. Never raises on untrusted text.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable

import msgspec

from spinney.api.labels import EPOCH, PLAN, PLAN_SIGNATURE
from spinney.api.markers import INT32_LIMIT
from spinney.api.meta import ObjectMeta

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

    lease: str
    epoch: int


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
