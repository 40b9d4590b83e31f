"""Records of plans in annotations of PodGroups, as a scheduler with the key reads them.

What the annotations say is read as it is, and once more with a signature that counts.
"""

from __future__ import annotations

import msgspec

from fuzz.objects import Json
from spinney.api.labels import PLAN
from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Plan, decode, encode
from spinney.core.scheduling.plan_records import KEY_BYTES, Mark, PlanRecords, Term, claimed, next_epoch, sign
from spinney.core.scheduling.settings import limits_of

_KEY = b"k" * KEY_BYTES
_BEFORE, _NOW = Term("lease", 1), Term("lease", 2)


def read_record(found: Json) -> None:
    try:
        group = msgspec.convert(found["metadata"], ObjectMeta)
    except msgspec.ValidationError:
        return
    claimed(group)
    limits_of(group.annotations, None)
    next_epoch((_KEY,), (group,))
    for each in (group, _signed(group)):
        _resume(each)


def _resume(group: ObjectMeta) -> None:
    """A leader takes over what was recorded before, and records it anew; what it wrote can be read."""
    records = PlanRecords((_KEY,), _NOW)
    records.inherit((group,))
    plan = records.read(group)
    if isinstance(plan, Plan):
        plan = msgspec.structs.replace(plan, epoch=_NOW.epoch)
        serial, annotations = records.seal(group, plan)
        records.recorded(group.uid, serial)
        assert decode(annotations[PLAN] or "") == plan, encode(plan)
        assert records.read(_annotated(group, annotations)) == plan, encode(plan)
    records.dropped(group.uid)
    records.unseal(group)
    records.forget(group.uid)


def _signed(group: ObjectMeta) -> ObjectMeta:
    return _annotated(group, sign(_KEY, group, Mark(_BEFORE, 1), group.annotations.get(PLAN, "")))


def _annotated(group: ObjectMeta, changed: dict[str, str | None]) -> ObjectMeta:
    kept = {key: value for key, value in {**group.annotations, **changed}.items() if value is not None}
    return msgspec.structs.replace(group, annotations=kept)
