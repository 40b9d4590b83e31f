"""What options of commands and the configuration say of the scheduler: how best fit chooses, and what may be moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from spinney.api.labels import SCHEDULER_KAI
from spinney.api.operator_configuration import KaiConfig, OperatorConfiguration
from spinney.core.scheduling.settings import BY_ITSELF, Settings
from spinney.whatif.inputs.operator_settings import strategy_of


@dataclass(frozen=True, slots=True)
class SchedulerChoices:
    """The options, which come before the configuration; None: nothing was said.

    `gpu`, `cpu`: the strategy for gangs that ask for GPUs, and for all others. `consolidate`: off, on-request or on.
    """

    gpu: str | None = None
    cpu: str | None = None
    consolidate: str | None = None
    most_moves: int | None = None
    most_gpus: int | None = None
    every_s: float | None = None


NOTHING_SAID = SchedulerChoices()


def scheduler_settings(
    settings: Settings, configuration: OperatorConfiguration, choices: SchedulerChoices, *, honours_requests: bool
) -> Settings:
    """The settings with what is chosen. `honours_requests`: a scheduler that moves pods by itself does so as well.

    Where a strategy spreads pods, nothing is moved by itself unless that is asked for: it would undo what was chosen.
    """
    strategy = strategy_of(configuration, choices.gpu, choices.cpu)
    config = next((each.kai for each in configuration.scheduler.profiles if each.name == SCHEDULER_KAI), KaiConfig())
    told = config.consolidation
    is_packed = strategy.gpu == strategy.cpu == "binpack"
    by_config = "on" if (is_packed if told.enabled is None else told.enabled) else "off"
    mode = choices.consolidate or by_config
    limits = msgspec.structs.replace(
        BY_ITSELF,
        max_moves=told.max_moves if choices.most_moves is None else choices.most_moves,
        max_gpus=told.max_gpus if choices.most_gpus is None else choices.most_gpus,
    )
    return replace(
        settings,
        strategy=strategy,
        consolidate=limits if mode == "on" else None,
        moves_every_s=told.every_seconds if choices.every_s is None else choices.every_s,
        moves_on_request=mode == "on-request" or (honours_requests and choices.consolidate != "off"),
    )
