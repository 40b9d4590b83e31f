"""What a SchedulingShard or Config asks of a scheduler: what is honoured, and a sentence for each field that is not.

Never leaves out a field silently. The shard of a scheduler is that of its node pool, of several the first by name; what
it says comes before configuration and options.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from kube_apimachinery.duration import DurationError, seconds
from spinney.api.kinds.schedulingshard import ActionConfig, Config, SchedulingShard, SchedulingShardSpec, UsageParams
from spinney.api.labels import KAI_NODE_POOL, KAI_QUEUE
from spinney.core.expansion.objects import to_builtins
from spinney.core.scheduling.queues.fair_share import MILLION
from spinney.core.scheduling.queues.past_use import PastUse
from spinney.core.scheduling.settings import BY_ITSELF, Settings

CONFIG_NAME = "kai-config"
ORDER = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
"""The actions of KAI, in the order that they have here."""

_PRIORITIES = dict(zip(ORDER, range(500, 0, -100), strict=True))
_OFF: Mapping[str, Mapping[str, Any]] = {
    "consolidation": {"consolidate": None, "moves_on_request": False},
    "reclaim": {"reclaims": False},
    "preempt": {"preempts": False},
    "stalegangeviction": {"staleness_grace_s": -1.0},
}
"""What it means for the settings that an action is switched off."""
_GRACE = "default-staleness-grace-period"
_HEAVIEST = 1000
_NO_PLUGINS = "has no effect: decisions are not made of plugins"

Changes = dict[str, Any]
"""Fields of the settings."""


class Honoured(NamedTuple):
    """`problems`: what of it has no effect, a sentence for each field."""

    settings: Settings
    problems: tuple[str, ...] = ()


def shard_of(shards: Iterable[SchedulingShard], node_pool: str) -> SchedulingShard | None:
    """The one that a scheduler goes by."""
    own = [each for each in shards if each.spec.partition_label_value == node_pool]
    return min(own, key=lambda each: each.metadata.name, default=None)


def honoured(shard: SchedulingShard | None, settings: Settings) -> Honoured:
    if shard is None:
        return Honoured(settings)
    changes: Changes = {}
    problems = [
        *_strategy(shard.spec, settings, changes),
        *_actions(shard.spec.actions, settings, changes),
        *_durations(shard.spec, changes),
        *_past_use(shard.spec, changes),
        *_without_effect(shard.spec),
    ]
    return Honoured(replace(settings, **changes), tuple(problems))


def config_problems(config: Config, settings: Settings) -> tuple[str, ...]:
    """What of a Config is not so here; nothing of it is adopted."""
    asked = to_builtins(config.spec)
    same = {"schedulerName": settings.names, "queueLabelKey": {KAI_QUEUE}, "nodePoolLabelKey": {KAI_NODE_POOL}}
    problems = []
    for key, value in (asked.pop("global", None) or {}).items():
        if key not in same:
            problems.append(f"spec.global.{key}: has no effect: deployments are the chart's")
        elif not isinstance(value, str) or value not in same[key]:
            problems.append(_unlike(f"spec.global.{key}", value, " or ".join(sorted(same[key]))))
    problems += [f"spec.{key}: has no effect: there is no such service here" for key, value in asked.items() if value]
    return tuple(problems)


def _strategy(spec: SchedulingShardSpec, settings: Settings, changes: Changes) -> Iterator[str]:
    """As with KAI nothing is moved where a strategy is spread, unless the shard switches that on."""
    said = spec.placement_strategy
    for field, value in (("gpu", said.gpu), ("cpu", said.cpu)) if said is not None else ():
        if value in ("binpack", "spread"):
            strategy = changes.get("strategy", settings.strategy)
            changes["strategy"] = msgspec.structs.replace(strategy, **{field: value})
            changes |= {"consolidate": None} if value == "spread" else {}
        elif value:
            yield _unlike(f"spec.placementStrategy.{field}", value, "binpack or spread")


def _actions(actions: Mapping[str, ActionConfig], settings: Settings, changes: Changes) -> Iterator[str]:
    for name, action in actions.items():
        if name not in ORDER:
            yield _unlike("spec.actions", name, f"only {', '.join(ORDER)}")
        elif action.enabled is False and name not in _OFF:
            yield f"spec.actions[{name}].enabled: has no effect: it cannot be switched off"
        elif action.enabled is False:
            changes |= _OFF[name]
        elif action.enabled and name == "consolidation":
            changes["consolidate"] = settings.consolidate or BY_ITSELF
    said = {name: each.priority for name, each in actions.items() if each.priority is not None and name in ORDER}
    wanted = sorted(ORDER, key=lambda name: -{**_PRIORITIES, **said}[name])
    if wanted != list(ORDER):
        yield _unlike("spec.actions[].priority", ", ".join(wanted), f"the order {', '.join(ORDER)}")


def _durations(spec: SchedulingShardSpec, changes: Changes) -> Iterator[str]:
    found = [(f"spec.args[{_GRACE}]", "staleness_grace_s", spec.args.get(_GRACE, ""))]
    if spec.min_runtime is not None:
        preempt, reclaim = spec.min_runtime.preempt_min_runtime, spec.min_runtime.reclaim_min_runtime
        found.append(("spec.minRuntime.preemptMinRuntime", "preempt_min_runtime_s", preempt))
        found.append(("spec.minRuntime.reclaimMinRuntime", "reclaim_min_runtime_s", reclaim))
    for path, field, text in found:
        try:
            changes |= {field: seconds(text)} if text else {}
        except DurationError:
            yield _unlike(path, text, "a duration such as 10m")


def _past_use(spec: SchedulingShardSpec, changes: Changes) -> Iterator[str]:
    """Use is counted here, whatever it would be read from."""
    asked, weight = spec.usage_db_config, 1.0 if spec.k_value is None else spec.k_value
    if asked is None:
        if spec.k_value is not None:
            yield "spec.kValue: has no effect without spec.usageDBConfig"
        return
    params = asked.usage_params or UsageParams()
    if not 0 < weight <= _HEAVIEST:
        yield _unlike("spec.kValue", weight, f"a number above 0, at most {_HEAVIEST}")
        return
    try:
        half_life_s = seconds(params.half_life_period or "0")
    except DurationError:
        half_life_s = 0.0
    if half_life_s < 1.0:
        field = "spec.usageDBConfig.usageParams.halfLifePeriod"
        yield _unlike(field, params.half_life_period, "a duration of 1s or more, after which past use counts half")
        return
    changes["past_use"] = PastUse(half_life_s, max(1, round(weight * MILLION)))
    others = {**to_builtins(asked), **{f"usageParams.{key}": value for key, value in to_builtins(params).items()}}
    for key in ("clientType", "usageParams", "usageParams.halfLifePeriod"):
        others.pop(key, None)
    yield from (f"spec.usageDBConfig.{key}: has no effect: the scheduler counts use itself" for key in others)


def _without_effect(spec: SchedulingShardSpec) -> Iterator[str]:
    if spec.queue_depth_per_action:
        yield "spec.queueDepthPerAction: has no effect: all gangs that wait are looked at"
    yield from (f"spec.args[{name}]: has no effect: only {_GRACE} has" for name in spec.args if name != _GRACE)
    for name, plugin in spec.plugins.items():
        if plugin.enabled is False or plugin.priority is not None or plugin.arguments:
            yield f"spec.plugins[{name}]: {_NO_PLUGINS}"


def _unlike(path: str, found: Any, expected: str) -> str:
    return f"{path}: found {json.dumps(found, ensure_ascii=False)}, expected {expected}"
