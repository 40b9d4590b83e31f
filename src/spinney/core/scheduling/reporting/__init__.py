"""Reports: the scheduler's decisions in one form for status, events, command line and pages. Pure."""

from spinney.core.scheduling.reporting.report import ClusterSummary, Event, PodReport, Report
from spinney.core.scheduling.reporting.report_builder import (
    WriteFailure,
    awaiting_volumes,
    failed,
    is_write_failure,
    report,
    ungrouped_reports,
)

__all__ = [
    "ClusterSummary",
    "Event",
    "PodReport",
    "Report",
    "WriteFailure",
    "awaiting_volumes",
    "failed",
    "is_write_failure",
    "report",
    "ungrouped_reports",
]
