"""How the scheduler tells its story: one report for status, events, command line and pages. Pure."""

from spinney.core.scheduling.reporting.failures import WriteFailure, failed, tells_failure
from spinney.core.scheduling.reporting.report import Event, PodReport, Report, Scene
from spinney.core.scheduling.reporting.strays import stray_reports
from spinney.core.scheduling.reporting.telling import awaiting_volumes, report

__all__ = [
    "Event",
    "PodReport",
    "Report",
    "Scene",
    "WriteFailure",
    "awaiting_volumes",
    "failed",
    "report",
    "stray_reports",
    "tells_failure",
]
