"""Builds the reports on gangs from decisions, and submits them to whoever writes them."""

from __future__ import annotations

from collections.abc import Sequence

from spinney.api.kinds.podgroup import PodGroup
from spinney.api.placement.result import Decision, Placement
from spinney.core.scheduling.cycle.grace_periods import MinRuntime
from spinney.core.scheduling.cycle.scheduling_queue import QueuedGang
from spinney.core.scheduling.cycle.session import Session
from spinney.core.scheduling.cycle.snapshot import DecisionMetrics, Reports
from spinney.core.scheduling.gang.parsed_gang import ParsedGang
from spinney.core.scheduling.queues.tree import Refusal
from spinney.core.scheduling.reporting import ClusterSummary, WriteFailure, failed, report
from spinney.core.scheduling.reporting.report import DEFAULT_NODE_POOL, Event, Report

_API_VERSION = f"{PodGroup.GROUP}/{PodGroup.VERSION}"


class GangReporter:
    """Tells reports and metrics what became of the gangs of a session."""

    def __init__(self, session: Session, reports: Reports, metrics: DecisionMetrics, min_runtime: MinRuntime) -> None:
        self._session = session
        self._min_runtime = min_runtime
        self._reports = reports
        self._metrics = metrics
        self._node_pool = session.settings.node_pool or DEFAULT_NODE_POOL

    def count(self, decision: Decision, took_s: float) -> None:
        """Count a decision of the engine."""
        self._metrics.decided(decision.outcome, took_s)

    def submit(self, entry: QueuedGang, told: Report) -> None:
        entry.reported = told.state.value
        self._reports.put(entry.key, told)

    def forget(self, entry: QueuedGang) -> None:
        """Drop pending reports on the gang."""
        self._reports.forget(entry.key)

    def explain(self, entry: QueuedGang, reading: ParsedGang, verdict: Decision | Refusal | None) -> None:
        """Report the outcome of a decision; None: nothing was decided."""
        assert entry.group is not None
        is_refused = isinstance(verdict, Decision) and verdict.outcome in ("infeasible", "exhausted")
        hindrance = self._hindrance(reading) if is_refused and reading.preempts else ""
        self.submit(entry, report(reading, verdict, entry.group.spec, self._summary(), hindrance=hindrance))

    def _hindrance(self, reading: ParsedGang) -> str:
        """What keeps it from taking the place of others."""
        reclaim = self._session.reclaim(reading)
        return ". ".join(filter(None, (reclaim.hindrance(), self._min_runtime.obstacle(reading, reclaim))))

    def explain_placed(
        self, entry: QueuedGang, decision: Decision | None, places: list[Placement], denied: str = ""
    ) -> None:
        """Report which pods are placed and which are not; `denied`: why the queue admits no more pods."""
        assert entry.group is not None and entry.reading is not None
        score = decision.score if decision is not None else None
        whole = Decision(entry.reading.gang.name, "placed", score=score, placements=tuple(places))
        self.submit(entry, report(entry.reading, whole, entry.group.spec, self._summary(), denied))

    def explain_failures(self, entry: QueuedGang, failures: Sequence[WriteFailure]) -> None:
        """Report writes that the API server refused; such a report stays until a write succeeds."""
        if entry.group is not None and entry.reading is not None:
            self.submit(entry, failed(entry.reading, failures, entry.group.spec, self._summary()))

    def note(self, entry: QueuedGang, event: Event) -> None:
        """Record an event about a PodGroup."""
        if entry.group is not None:
            self._reports.note(_API_VERSION, "PodGroup", entry.group.metadata, event)

    def _summary(self) -> ClusterSummary:
        cluster = self._session.cluster
        return ClusterSummary(cluster.topologies, cluster.inventory.node_count(), self._node_pool)
