"""What a SchedulingShard asks for is honoured, or said to have no effect."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spinney.api.kinds.schedulingshard import Config, SchedulingShard
from spinney.api.operator_configuration import PlacementStrategy
from spinney.core.scheduling.queues.past_use import PastUse
from spinney.core.scheduling.settings import BY_ITSELF, Settings
from spinney.core.scheduling.shards import config_problems, honoured, shard_of

Json = dict[str, Any]


def shard(name: str = "default", **spec: Any) -> SchedulingShard:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, SchedulingShard)


MOVES = Settings(consolidate=BY_ITSELF)
HONOURED: dict[str, tuple[Json, Settings]] = {
    "nothing": ({}, MOVES),
    "a strategy": (
        {"placementStrategy": {"gpu": "binpack"}},
        Settings(consolidate=BY_ITSELF, strategy=PlacementStrategy("binpack", "binpack")),
    ),
    "spread, with which nothing is moved": (
        {"placementStrategy": {"cpu": "spread"}},
        Settings(consolidate=None, strategy=PlacementStrategy("binpack", "spread")),
    ),
    "spread, and moves": (
        {"placementStrategy": {"gpu": "spread"}, "actions": {"consolidation": {"enabled": True}}},
        Settings(consolidate=BY_ITSELF, strategy=PlacementStrategy("spread", "binpack")),
    ),
    "no moves": (
        {"actions": {"consolidation": {"enabled": False}}},
        Settings(consolidate=None, moves_on_request=False),
    ),
    "no reclaim, no preemption": (
        {"actions": {"reclaim": {"enabled": False}, "preempt": {"enabled": False}}},
        Settings(consolidate=BY_ITSELF, reclaims=False, preempts=False),
    ),
    "gangs below their minimum run on": (
        {"actions": {"stalegangeviction": {"enabled": False}}},
        Settings(consolidate=BY_ITSELF, staleness_grace_s=-1.0),
    ),
    "actions in their order": (
        {"actions": {"allocate": {"priority": 900}, "preempt": {"enabled": True, "priority": 150}}},
        MOVES,
    ),
    "minimum runtimes": (
        {"minRuntime": {"preemptMinRuntime": "10m", "reclaimMinRuntime": "30s"}},
        Settings(consolidate=BY_ITSELF, preempt_min_runtime_s=600.0, reclaim_min_runtime_s=30.0),
    ),
    "a grace period": (
        {"args": {"default-staleness-grace-period": "2m"}},
        Settings(consolidate=BY_ITSELF, staleness_grace_s=120.0),
    ),
    "shares that remember": (
        {"usageDBConfig": {"clientType": "prometheus", "usageParams": {"halfLifePeriod": "24h"}}, "kValue": 0.5},
        Settings(consolidate=BY_ITSELF, past_use=PastUse(86_400.0, 500_000)),
    ),
    "plugins as they are": ({"plugins": {"topology": {"enabled": True}}}, MOVES),
}


@pytest.mark.parametrize("row", HONOURED)
def test_k16_what_a_shard_asks_for_is_honoured(row: str) -> None:
    spec, expected = HONOURED[row]
    assert honoured(shard(**spec), MOVES) == (expected, ())


PROBLEMS: dict[str, tuple[Json, str]] = {
    "a strategy that there is not": (
        {"placementStrategy": {"gpu": "tight"}},
        'spec.placementStrategy.gpu: found "tight", expected binpack or spread',
    ),
    "an action that there is not": (
        {"actions": {"tidy": {}}},
        'spec.actions: found "tidy", expected only allocate, consolidation, reclaim, preempt, stalegangeviction',
    ),
    "no allocation": (
        {"actions": {"allocate": {"enabled": False}}},
        "spec.actions[allocate].enabled: has no effect: it cannot be switched off",
    ),
    "another order": (
        {"actions": {"preempt": {"priority": 350}}},
        'spec.actions[].priority: found "allocate, consolidation, preempt, reclaim, stalegangeviction", '
        "expected the order allocate, consolidation, reclaim, preempt, stalegangeviction",
    ),
    "no duration": (
        {"minRuntime": {"preemptMinRuntime": "soon"}},
        'spec.minRuntime.preemptMinRuntime: found "soon", expected a duration such as 10m',
    ),
    "past use without a half-life": (
        {"usageDBConfig": {"clientType": "prometheus"}},
        'spec.usageDBConfig.usageParams.halfLifePeriod: found "", '
        "expected a duration of 1s or more, after which past use counts half",
    ),
    "past use that outweighs everything": (
        {"usageDBConfig": {"clientType": "prometheus"}, "kValue": 1e300},
        "spec.kValue: found 1e+300, expected a number above 0, at most 1000",
    ),
    "a weight of nothing": ({"kValue": 1}, "spec.kValue: has no effect without spec.usageDBConfig"),
    "how many gangs are looked at": (
        {"queueDepthPerAction": {"reclaim": 8}},
        "spec.queueDepthPerAction: has no effect: all gangs that wait are looked at",
    ),
    "another option": ({"args": {"v": "4"}}, "spec.args[v]: has no effect: only default-staleness-grace-period has"),
    "a plugin switched off": (
        {"plugins": {"topology": {"enabled": False}}},
        "spec.plugins[topology]: has no effect: decisions are not made of plugins",
    ),
    "a plugin with arguments": (
        {"plugins": {"proportion": {"arguments": {"kValue": "2"}}}},
        "spec.plugins[proportion]: has no effect: decisions are not made of plugins",
    ),
}


@pytest.mark.parametrize("row", PROBLEMS)
def test_k16_what_of_a_shard_has_no_effect_is_said_with_its_field(row: str) -> None:
    spec, expected = PROBLEMS[row]
    assert honoured(shard(**spec), MOVES) == (MOVES, (expected,))


def test_k16_where_past_use_would_be_read_from_has_no_effect() -> None:
    params = {"halfLifePeriod": "1h", "windowSize": "168h"}
    asked = {"clientType": "a", "connectionString": "b", "usageParams": params}
    found = honoured(shard(usageDBConfig=asked), MOVES)
    assert found.settings.past_use == PastUse(3600.0)
    assert found.problems == (
        "spec.usageDBConfig.connectionString: has no effect: the scheduler counts use itself",
        "spec.usageDBConfig.usageParams.windowSize: has no effect: the scheduler counts use itself",
    )


def test_k16_a_shard_is_that_of_the_schedulers_node_pool() -> None:
    shards = [shard("b"), shard("a"), shard("h100", partitionLabelValue="h100")]
    assert shard_of(shards, "") is shards[1]
    assert shard_of(shards, "h100") is shards[2]
    assert shard_of(shards, "gb200") is None
    assert honoured(None, MOVES) == (MOVES, ())


def test_k16_what_of_a_config_is_not_so_here_is_said_with_its_field() -> None:
    spec = {
        "global": {"schedulerName": "kai-scheduler", "queueLabelKey": "team", "replicaCount": 2, "nodePoolLabelKey": 1},
        "binder": {"replicas": 2},
        "prometheus": {},
    }
    found = config_problems(msgspec.convert({"metadata": {"name": "kai-config"}, "spec": spec}, Config), MOVES)
    assert found == (
        'spec.global.queueLabelKey: found "team", expected kai.scheduler/queue',
        "spec.global.replicaCount: has no effect: deployments are the chart's",
        "spec.global.nodePoolLabelKey: found 1, expected kai.scheduler/node-pool",
        "spec.binder: has no effect: there is no such service here",
    )
