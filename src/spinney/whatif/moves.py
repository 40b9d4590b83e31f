"""Whether a gang that does not fit would fit after moving pods of others, as `spinney consolidate` computes it.

Read-only: no pod is moved, not even in the simulated cluster.
"""

from __future__ import annotations

from dataclasses import replace

from spinney.api.placement.problem import Consolidate
from spinney.core.scheduling.cycle.placement_session import PlacementSession
from spinney.core.scheduling.cycle.preemption import Preemptor, RunningGang
from spinney.core.scheduling.cycle.snapshot import group_of
from spinney.core.scheduling.settings import Settings
from spinney.core.view.plan_result import DisplacedPod
from spinney.drive.client.paths import Key
from spinney.whatif.simulator import ClusterSimulator

LIMITS = Consolidate(max_moves=16, max_loss=0.0)
"""The default limits of `spinney consolidate` for one gang."""


class MoveSearch:
    """Searches moves in the current state of a simulated cluster."""

    def __init__(self, shadow: ClusterSimulator, settings: Settings) -> None:
        self._shadow = shadow
        self._session = PlacementSession(shadow.cluster, settings.strategy, settings.budget)
        self._session.renew()
        for entry in shadow.entries:
            if entry.reading is not None:
                self._session.put_gang(entry.reading.gang)
        self._preemptor = Preemptor(
            shadow.views.budgets, shadow.cluster, self._session, self._session.options, self._running_gang
        )

    def moves_for(self, key: Key) -> tuple[DisplacedPod, ...]:
        """The pods that would have to move, each with its new node; empty if moves do not help."""
        reading = next((entry.reading for entry in self._shadow.entries if entry.key == key), None)
        if reading is None or not reading.ready or reading.mistake:
            return ()
        selection = self._preemptor.decide(replace(reading, preempts=False), LIMITS)
        if selection.decision.outcome != "placed":
            return ()
        return tuple(
            DisplacedPod(
                f"{pod.metadata.namespace}/{pod.metadata.name}", "/".join(group_of(pod)), pod.spec.node_name, node
            )
            for pod, node in selection.moves
        )

    def _running_gang(self, name: str) -> RunningGang | None:
        found = next((entry for entry in self._shadow.entries if entry.name == name), None)
        if found is None or found.reading is None:
            return None
        key = found.key
        return RunningGang(found.reading, lambda: self._shadow.views.pods_of(key), found.in_flight)
