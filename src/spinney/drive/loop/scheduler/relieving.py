"""A queue at its limit, and a gang that is more important than others that stand there: who of them would have to go.

Never counts a gang of a queue whose limit is none of the matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spinney.api.placement.result import Victim
from spinney.core.scheduling.queue_relief import Tenant, allows, relief
from spinney.core.scheduling.queues import Charge, Queues


@dataclass(frozen=True, slots=True)
class Relief:
    """What a gang asks of its queue. `inside`: the queues that the limit is about; `eased`: as of then."""

    queues: Queues
    asked: Charge
    inside: frozenset[str]
    eased: int

    def victims(self, tenants: Sequence[Tenant]) -> tuple[Victim, ...] | None:
        """None: it is too much for the limit, whoever of them goes."""
        return relief(self.queues, self.asked, tenants)

    def allows(self, tenants: Sequence[Tenant], gone: Sequence[Victim]) -> bool:
        """Whether the limit allows the gang when these are gone."""
        return allows(self.queues, self.asked, tenants, gone)
