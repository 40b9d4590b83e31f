"""Who signs the webhook's certificates, and when the next one takes over. Pure: the time is given.

An authority is replaced in three steps, and everybody gets `settle_s` to see each of them: it comes into the bundle,
then leaves are signed by it, then the older one goes out of the bundle. All steps follow from the ages of the
authorities, so that processes that share them agree without speaking to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kube_apimachinery import tls

Authorities = tuple[tls.Certificate, ...]
"""Oldest first."""

_DAY_S = 86_400.0
_SIGNS_AFTER, _ALONE_AFTER = 1, 3
"""Multiples of `settle_s`. Leaves change within one of them, so that a third one is enough for all to have done it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long certificates are good for, how early they are replaced, and how long a step is given."""

    authority_days: int = 365
    authority_margin_s: float = 90 * _DAY_S
    leaf_days: int = 30
    leaf_margin_s: float = 10 * _DAY_S
    settle_s: float = 300.0


def rotated(authorities: Sequence[tls.Certificate], now_s: float, schedule: Schedule) -> Authorities:
    """The authorities as they should be now: one more, one less, or the same."""
    living = tuple(one for one in authorities if one.expires_s > now_s)
    if not living:
        return (_new(now_s, schedule),)
    newest = living[-1]
    if len(living) > 1:
        return (newest,) if _age(newest, now_s) >= _ALONE_AFTER * schedule.settle_s else living
    if tls.is_due(newest, now_s, schedule.authority_margin_s):
        return (newest, _new(now_s, schedule))
    return living


def signer(authorities: Authorities, now_s: float, schedule: Schedule) -> tls.Certificate:
    """The newest one that everybody has had the time to trust."""
    newest = authorities[-1]
    if len(authorities) == 1 or _age(newest, now_s) >= _SIGNS_AFTER * schedule.settle_s:
        return newest
    return authorities[-2]


def leaf_for(
    current: tls.Certificate | None,
    authorities: Authorities,
    hosts: Sequence[str],
    now_s: float,
    schedule: Schedule,
) -> tls.Certificate:
    """The certificate to show: the current one while it is good, else a new one."""
    signs = signer(authorities, now_s, schedule)
    if (
        current is not None
        and not tls.is_due(current, now_s, schedule.leaf_margin_s)
        and tls.is_issued_by(current, signs)
    ):
        return current
    return tls.issue(signs, hosts, now_s=now_s, days=schedule.leaf_days)


def _new(now_s: float, schedule: Schedule) -> tls.Certificate:
    return tls.create_authority("spinney-webhook", now_s=now_s, days=schedule.authority_days)


def _age(authority: tls.Certificate, now_s: float) -> float:
    return now_s - authority.made_s
