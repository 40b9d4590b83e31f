"""What gangs are told, each with how it stands: the words of the core, put where reports are carried out."""

from __future__ import annotations

from collections.abc import Sequence

from spinney.api.placement.result import Decision, Placement
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gangs import GangReading
from spinney.core.scheduling.queues import Refusal
from spinney.core.scheduling.reporting import Event, Report, Scene, WriteFailure, failed, report
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL
from spinney.drive.loop.scheduler.book import Entry
from spinney.drive.loop.scheduler.reports import Reports
from spinney.drive.loop.scheduler.views import PODGROUPS


class Teller:
    """For the gangs of one node pool; empty: those without a pool."""

    def __init__(self, reports: Reports, cluster: Cluster, node_pool: str) -> None:
        self._reports = reports
        self._cluster = cluster
        self._node_pool = node_pool or DEFAULT_NODE_POOL

    def tell(self, entry: Entry, told: Report) -> None:
        entry.state = told.state.value
        self._reports.put(entry.key, told)

    def forget(self, entry: Entry) -> None:
        """There is nothing to be told about it any more."""
        self._reports.forget(entry.key)

    def explain(self, entry: Entry, reading: GangReading, verdict: Decision | Refusal | None) -> None:
        """What came of it; None: it was not even asked."""
        assert entry.group is not None
        self.tell(entry, report(reading, verdict, entry.group.spec, self._scene()))

    def explain_placed(
        self, entry: Entry, decision: Decision | None, places: list[Placement], denied: str = ""
    ) -> None:
        """Who has a place and who has none; `denied`: why its queue will not have more of it."""
        assert entry.group is not None and entry.reading is not None
        score = decision.score if decision is not None else None
        whole = Decision(entry.reading.gang.name, "placed", score=score, placements=tuple(places))
        self.tell(entry, report(entry.reading, whole, entry.group.spec, self._scene(), denied))

    def explain_failures(self, entry: Entry, failures: Sequence[WriteFailure]) -> None:
        """What the API server did not take; one that was told keeps being told until something is taken."""
        if entry.group is not None and entry.reading is not None:
            self.tell(entry, failed(entry.reading, failures, entry.group.spec, self._scene()))

    def note(self, entry: Entry, event: Event) -> None:
        """An event about a PodGroup."""
        if entry.group is not None:
            self._reports.note(PODGROUPS.api_version, "PodGroup", entry.group.metadata, event)

    def _scene(self) -> Scene:
        return Scene(self._cluster.topologies, len(self._cluster.inventory.slots()), self._node_pool)
