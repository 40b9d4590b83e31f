"""SchedulingShard and Config: how KAI is told what its schedulers do. Served so that manifests apply; see `shards`.

Ours says on each what of it has an effect here, and what has none.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from spinney.api.meta import Conditions, Kind, Opaque, Slim, Word, doc, mapped, number, text

_Text = Annotated[str, text(most=4096)]
_Texts = Annotated[dict[str, _Text], mapped(None, most=256)]
_Switch = Annotated[bool | None, doc("Whether it is used.")]
_Priority = Annotated[int | None, number("Those of higher priority come first.")]


class PluginConfig(Slim, frozen=True):
    enabled: _Switch = None
    priority: _Priority = None
    arguments: Annotated[_Texts | None, doc("What it is given.")] = None


class ActionConfig(Slim, frozen=True):
    enabled: _Switch = None
    priority: _Priority = None


class ShardPlacementStrategy(Slim, frozen=True):
    gpu: Annotated[Word, doc("For gangs that ask for GPUs: binpack or spread.")] = ""
    cpu: Annotated[Word, doc("For all others: binpack or spread.")] = ""


class MinRuntime(Slim, frozen=True):
    preempt_min_runtime: Annotated[Word, doc("How long a gang runs before it can be preempted.")] = ""
    reclaim_min_runtime: Annotated[Word, doc("How long a gang runs before its resources can be reclaimed.")] = ""


class UsageParams(Slim, frozen=True):
    half_life_period: Annotated[Word, doc("After so long past use counts half; none: it never fades.")] = ""
    window_size: Annotated[Word, doc("How far back use counts.")] = ""
    window_type: Annotated[Word, doc("How the window moves.")] = ""
    tumbling_window_start_time: Annotated[Word, doc("When the first window begins.")] = ""
    cron_string: Annotated[_Text, doc("When windows begin.")] = ""
    fetch_interval: Annotated[Word, doc("How often use is read.")] = ""
    staleness_period: Annotated[Word, doc("How old what was read may be.")] = ""
    wait_timeout: Annotated[Word, doc("How long reading may take.")] = ""
    extra_params: Annotated[_Texts, doc("What the client is given beside.")] = field(default_factory=dict)


class UsageDBConfig(Slim, frozen=True):
    client_type: Annotated[Word, doc("What past use is read from.")]
    connection_string: Annotated[_Text, doc("Where that is.")] = ""
    connection_string_env_var: Annotated[_Text, doc("The variable that says where that is.")] = ""
    usage_params: Annotated[UsageParams | None, doc("How past use counts.")] = None


class SchedulingShardSpec(Slim, frozen=True):
    args: Annotated[_Texts, doc("Options of the scheduler, without their dashes.")] = field(default_factory=dict)
    placement_strategy: Annotated[ShardPlacementStrategy | None, doc("How nodes are chosen.")] = None
    partition_label_value: Annotated[Word, doc("The node pool; none: nodes without one.")] = ""
    queue_depth_per_action: Annotated[
        dict[str, Annotated[int, number()]], mapped("How many gangs of a queue an action looks at.", most=64)
    ] = field(default_factory=dict)
    min_runtime: Annotated[MinRuntime | None, doc("For queues that state none.")] = None
    k_value: Annotated[float | None, doc("How much past use weighs; 1 if not set.")] = None
    usage_db_config: Annotated[UsageDBConfig | None, doc("Shares that remember past use.")] = field(
        default=None, name="usageDBConfig"
    )
    plugins: Annotated[dict[str, PluginConfig], mapped("Plugins by name.", most=128)] = field(default_factory=dict)
    actions: Annotated[dict[str, ActionConfig], mapped("Actions by name.", most=64)] = field(default_factory=dict)


class StatusOfConditions(Slim, frozen=True):
    conditions: Annotated[Conditions, doc("What has an effect.")] = ()


class SchedulingShard(Kind, frozen=True):
    """What the scheduler of one node pool does."""

    GROUP: ClassVar = "kai.scheduler"
    VERSION: ClassVar = "v1"
    KIND: ClassVar = "SchedulingShard"
    PLURAL: ClassVar = "schedulingshards"
    NAMESPACED: ClassVar = False

    spec: Annotated[SchedulingShardSpec, doc("What is asked for.")] = SchedulingShardSpec()
    status: Annotated[StatusOfConditions, doc("What became of it.")] = StatusOfConditions()


class ConfigSpec(Slim, frozen=True):
    namespace: Annotated[Word, doc("Where KAI's own operator puts its services.")] = ""
    global_: Annotated[Opaque | None, doc("What all services share.")] = field(default=None, name="global")
    pod_grouper: Annotated[Opaque | None, doc("KAI's pod-grouper.")] = None
    binder: Annotated[Opaque | None, doc("KAI's binder.")] = None
    admission: Annotated[Opaque | None, doc("KAI's admission.")] = None
    scheduler: Annotated[Opaque | None, doc("KAI's scheduler.")] = None
    queue_controller: Annotated[Opaque | None, doc("KAI's queue controller.")] = None
    pod_group_controller: Annotated[Opaque | None, doc("KAI's controller of PodGroups.")] = None
    node_scale_adjuster: Annotated[Opaque | None, doc("KAI's helper of autoscalers.")] = None
    prometheus: Annotated[Opaque | None, doc("KAI's metrics store.")] = None


class Config(Kind, frozen=True):
    """What KAI's operator installs."""

    GROUP: ClassVar = "kai.scheduler"
    VERSION: ClassVar = "v1"
    KIND: ClassVar = "Config"
    PLURAL: ClassVar = "configs"
    NAMESPACED: ClassVar = False

    spec: Annotated[ConfigSpec, doc("What is asked for.")] = ConfigSpec()
    status: Annotated[StatusOfConditions, doc("What became of it.")] = StatusOfConditions()
