"""Would a gang that does not fit do so if others were moved? The question of `spinney consolidate`, on the same copy.

Only asks: nobody is moved, not even in the copy.
"""

from __future__ import annotations

from dataclasses import replace

from spinney.api.placement.problem import Consolidate
from spinney.cli.plan_shadow import Shadow
from spinney.core.view.forecast import Leaver
from spinney.drive.client.paths import Key
from spinney.drive.loop.scheduler.deciding import Decider
from spinney.drive.loop.scheduler.hunting import Hunter, Stander
from spinney.drive.loop.scheduler.settings import Settings
from spinney.drive.loop.scheduler.views import group_of

LIMITS = Consolidate(max_moves=16, max_loss=0.0)
"""As many as `spinney consolidate` allows for one gang unless told otherwise."""


class Mover:
    """Over a shadow as it stands now."""

    def __init__(self, shadow: Shadow, settings: Settings) -> None:
        self._shadow = shadow
        self._decider = Decider(shadow.cluster, settings.strategy, settings.budget)
        self._decider.renew()
        for entry in shadow.entries:
            if entry.reading is not None:
                self._decider.stand(entry.reading.gang)
        self._hunter = Hunter(shadow.views.budgets, shadow.cluster, self._decider, self._decider.options, self._stander)

    def moves_for(self, key: Key) -> tuple[Leaver, ...]:
        """Those who would have to move, each with its new node; none: that does not help."""
        reading = next((entry.reading for entry in self._shadow.entries if entry.key == key), None)
        if reading is None or not reading.ready or reading.mistake:
            return ()
        prey = self._hunter.decide(replace(reading, preempts=False), LIMITS)
        if prey.decision.outcome != "placed":
            return ()
        return tuple(
            Leaver(f"{pod.metadata.namespace}/{pod.metadata.name}", "/".join(group_of(pod)), pod.spec.node_name, node)
            for pod, node in prey.moves
        )

    def _stander(self, name: str) -> Stander | None:
        found = next((entry for entry in self._shadow.entries if entry.name == name), None)
        if found is None or found.reading is None:
            return None
        key = found.key
        return Stander(found.reading, lambda: self._shadow.views.pods_of(key), found.in_flight)
