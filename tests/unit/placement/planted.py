"""All planted faults of the placement engine by name."""

from __future__ import annotations

from unit.placement.faults import counting, domains, extras, filters, packing, search, victims, wishes, zones
from unit.placement.faults.fault import Fault

_FOUND = [
    fault
    for module in (counting, filters, domains, search, packing, wishes, extras, victims, zones)
    for fault in vars(module).values()
    if isinstance(fault, Fault)
]
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FOUND}
assert len(FAULTS) == len(_FOUND), "two planted faults have the same name"
