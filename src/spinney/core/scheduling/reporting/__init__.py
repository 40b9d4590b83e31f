"""How the scheduler tells its story: one report for status, events, command line and pages. Pure."""

from spinney.core.scheduling.reporting.report import Event, PodReport, Report, Scene
from spinney.core.scheduling.reporting.strays import stray_reports
from spinney.core.scheduling.reporting.telling import report

__all__ = ["Event", "PodReport", "Report", "Scene", "report", "stray_reports"]
