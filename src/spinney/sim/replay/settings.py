"""Settings: what differs between replays of the same arrivals.

A setting is a strategy and what is added to it: `binpack`, `spread+consolidation`, `binpack+fifo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spinney.api.placement.problem import Consolidate

STRATEGIES = ("binpack", "spread")
CONSOLIDATION, FIFO = "consolidation", "fifo"
DEFAULT_SETTINGS = ("binpack", "spread")


class SettingError(ValueError):
    """A setting that there is not."""


@dataclass(frozen=True, slots=True)
class Setting:
    """`consolidate`: how much may be moved for a gang that fits nowhere. `fifo`: nobody overtakes whoever waits."""

    name: str
    strategy: str
    consolidate: Consolidate | None = None
    fifo: bool = False


def read_settings(written: Sequence[str], limits: Consolidate) -> list[Setting]:
    """Each once."""
    for name in written:
        if list(written).count(name) > 1:
            raise SettingError(f"--setting: found {name!r} twice, allowed: each setting once")
    return [read_setting(name, limits) for name in written]


def read_setting(written: str, limits: Consolidate) -> Setting:
    strategy, *added = written.split("+")
    if strategy not in STRATEGIES or len(set(added)) != len(added) or not set(added) <= {CONSOLIDATION, FIFO}:
        allowed = f"{' or '.join(STRATEGIES)}, with +{CONSOLIDATION} and +{FIFO} where wanted"
        raise SettingError(f"--setting: found {written!r}, allowed: {allowed}")
    return Setting(written, strategy, limits if CONSOLIDATION in added else None, FIFO in added)
