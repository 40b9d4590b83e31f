"""What options and the configuration say of moves: options come first, and where nothing is said they are on."""

from __future__ import annotations

import pytest

from spinney.api.operator_configuration import load_configuration
from spinney.api.placement.problem import Consolidate
from spinney.cli.wiring.scheduler_choices import SchedulerChoices, scheduler_settings
from spinney.core.scheduling.settings import BY_ITSELF, Settings

NOTHING = SchedulerChoices()


def chosen(config: str, choices: SchedulerChoices, *, in_up: bool = False) -> Settings:
    text = f"scheduler: {{profiles: [{{name: kai-scheduler, config: {{{config}}}}}]}}"
    return scheduler_settings(Settings(), load_configuration(text), choices, honours_requests=in_up)


def test_k10_moves_are_on_where_nothing_is_said() -> None:
    for found in (
        chosen("", NOTHING),
        scheduler_settings(Settings(), load_configuration(""), NOTHING, honours_requests=False),
    ):
        assert (found.consolidate, found.moves_every_s, found.moves_on_request) == (BY_ITSELF, 60.0, False)
    assert chosen("", NOTHING, in_up=True).moves_on_request


@pytest.mark.parametrize(
    ("config", "choices", "limits"),
    [
        ("consolidation: {enabled: false}", NOTHING, None),
        ("consolidation: {maxMoves: 2, maxGPUs: 3}", NOTHING, Consolidate(2, 0.0, 3, 10_000)),
        ("consolidation: {maxMoves: 2}", SchedulerChoices(most_moves=4, most_gpus=5), Consolidate(4, 0.0, 5, 10_000)),
        ("consolidation: {enabled: false}", SchedulerChoices(consolidate="on"), BY_ITSELF),
        ("", SchedulerChoices(consolidate="off"), None),
        ("", SchedulerChoices(consolidate="on-request"), None),
        ("placementStrategy: {cpu: spread}", NOTHING, None),
        ("placementStrategy: {cpu: spread}, consolidation: {enabled: true}", NOTHING, BY_ITSELF),
        ("", SchedulerChoices(gpu="spread"), None),
    ],
)
def test_k10_options_come_before_the_configuration_and_spread_gangs_stay(
    config: str, choices: SchedulerChoices, limits: Consolidate | None
) -> None:
    assert chosen(config, choices).consolidate == limits


def test_k10_how_often_moves_are_looked_for_is_configured() -> None:
    assert chosen("consolidation: {everySeconds: 5}", NOTHING).moves_every_s == 5
    assert chosen("consolidation: {everySeconds: 5}", SchedulerChoices(every_s=7.5)).moves_every_s == 7.5


@pytest.mark.parametrize(
    ("mode", "in_run", "in_up"), [("off", False, False), ("on-request", True, True), ("on", False, True)]
)
def test_inv7_requests_are_honoured_where_they_are_asked_for(mode: str, in_run: bool, in_up: bool) -> None:
    choices = SchedulerChoices(consolidate=mode)
    assert (chosen("", choices).moves_on_request, chosen("", choices, in_up=True).moves_on_request) == (in_run, in_up)
