"""Alerts and the dashboard name only metrics, and labels of them, that exist."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from spinney.cli.wiring.roles import leader, metrics_server, webhook
from spinney.core.scheduling.queues.tree import QueueFigures, Shares
from spinney.drive.client.informers import unreadable
from spinney.drive.scheduler.metrics import Metrics
from unit.scheduling.test_metrics import inventory

MONITORING = Path(__file__).parents[3] / "deploy" / "chart" / "monitoring"
_SUFFIXES = {"histogram": ("_bucket", "_count", "_sum")}
_NO_METRICS = re.compile(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]|\b(?:by|without|on|ignoring)\s*\([^)]*\)')
_WORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\b(?!\s*\()")
_KEYWORDS = {"and", "or", "unless", "bool", "offset", "by", "without"}


def named(expression: str) -> set[str]:
    """The metrics that a PromQL expression names."""
    return set(_WORD.findall(_NO_METRICS.sub(" ", expression))) - _KEYWORDS


def of_the_scheduler() -> Iterator[str]:
    figures = QueueFigures(*[Shares()] * 4)
    page = Metrics(inventory, dict, lambda: {"a": figures}).page()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M):
        yield from (f"{name}{suffix}" for suffix in _SUFFIXES.get(kind, ("",)))


def of_roles() -> set[str]:
    sources = (leader.Candidate.figures, webhook.WebhookRole.figures, unreadable.figures, metrics_server.metrics_text)
    words = [word for one in sources for word in re.findall(r"""["']([a-z_]+)(?:["']|\{\{)""", inspect.getsource(one))]
    return {f"spinney_{word}" for word in words}


def expressions() -> dict[str, str]:
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    found = {rule["alert"]: rule["expr"] for group in rules for rule in group["rules"]}
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    targets = [(panel["title"], target) for panel in panels for target in panel["targets"]]
    return found | {f"{title} {target['refId']}": target["expr"] for title, target in targets}


@pytest.mark.parametrize(("title", "expression"), expressions().items(), ids=expressions().keys())
def test_alerts_and_panels_name_metrics_that_exist(title: str, expression: str) -> None:
    assert named(expression)
    assert named(expression) <= {*of_the_scheduler(), *of_roles()}


@pytest.mark.parametrize(
    "wrong", ["max(kai_gpu_fragmentatoin) > 0.5", "rate(spinney_cals_total[5m])", "kai_placement_score"]
)
def test_a_metric_that_is_misspelt_is_found(wrong: str) -> None:
    assert not named(wrong) <= {*of_the_scheduler(), *of_roles()}


def test_what_is_asked_for_has_an_alert() -> None:
    alerts = {name for name in expressions() if name.startswith("Spinney")}
    asked = {"SpinneyGangWaitsTooLong", "SpinneyFreeGpusFragmented", "SpinneyNoLeader", "SpinneyWebhookFailing"}
    assert asked <= alerts


def test_the_oldest_pending_gang_has_a_metric() -> None:
    metrics = Metrics(lambda: None, dict, dict, lambda: "2026-01-01T00:00:00Z")
    assert "\nkai_pending_podgroup_oldest_timestamp_seconds 1.7672256e+09\n" in metrics.page()
    assert "\nkai_pending_podgroup_oldest_timestamp_seconds " not in Metrics(lambda: None).page()
