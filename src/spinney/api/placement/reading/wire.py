"""The exchange format as it is written: names, types, and what may be left out.

Types only. Null where a field may be left out is the same as leaving it out; what a value means is judged elsewhere.
"""

from __future__ import annotations

from typing import Any

import msgspec

Quantities = dict[str, str | int | float]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Fields are spelled in camel case, and there are no others."""


class WireTopology(_Strict, frozen=True):
    name: str
    levels: tuple[str, ...] | None = None
    zones: bool | None = None


class WireTaint(_Strict, frozen=True, gc=False):
    """As on a v1 Node."""

    key: str
    effect: str
    value: str | None = None
    time_added: str | None = None


class WireZone(_Strict, frozen=True):
    name: str
    allocatable: Quantities | None = None
    used: Quantities | None = None
    releasing: Quantities | None = None


class WireNode(_Strict, frozen=True):
    name: str
    labels: dict[str, str] | None = None
    allocatable: Quantities | None = None
    used: Quantities | None = None
    releasing: Quantities | None = None
    taints: tuple[WireTaint, ...] | None = None
    unschedulable: bool | None = None
    ready: bool | None = None
    host_ports: tuple[int, ...] | None = None
    zones: tuple[WireZone, ...] | None = None
    zone_policy: str | None = None


class WireToleration(_Strict, frozen=True, gc=False):
    """As in a pod spec."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class WireTerm(_Strict, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class WireNodeTerm(_Strict, frozen=True):
    match_expressions: tuple[WireTerm, ...] | None = None
    match_fields: tuple[WireTerm, ...] | None = None


class WirePreferredTerm(_Strict, frozen=True):
    weight: int
    preference: WireNodeTerm


class WireNodeSelector(_Strict, frozen=True):
    node_selector_terms: tuple[WireNodeTerm, ...] | None = None


class WireNodeAffinity(_Strict, frozen=True):
    required: WireNodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WirePreferredTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class WireAffinity(_Strict, frozen=True):
    """Affinity between pods is recognised, so that it can be answered; its content is nobody's business here."""

    node_affinity: WireNodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class WirePodSet(_Strict, frozen=True):
    name: str
    count: int | None = None
    min: int | None = None
    request: Quantities | None = None
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[WireToleration, ...] | None = None
    affinity: WireAffinity | None = None
    host_ports: tuple[int, ...] | None = None
    anti_affinity: tuple[str, ...] | None = None


class WireGroup(_Strict, frozen=True):
    name: str
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    min_groups: int | None = None
    groups: tuple[WireGroup, ...] | None = None
    pods: tuple[WirePodSet, ...] | None = None


class WireTie(_Strict, frozen=True):
    gang: str
    level: str


class WireRunning(_Strict, frozen=True, gc=False):
    pods: str
    node: str
    zone: str | None = None


class WireGang(_Strict, frozen=True):
    name: str
    priority: int | None = None
    preemptible: bool | None = None
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    min_groups: int | None = None
    tied_to: WireTie | None = None
    groups: tuple[WireGroup, ...] | None = None
    pods: tuple[WirePodSet, ...] | None = None
    running: tuple[WireRunning, ...] | None = None


class WireConsolidate(_Strict, frozen=True):
    max_moves: int | None = None
    max_loss: float | None = None


class WireOptions(_Strict, frozen=True):
    strategy: str | None = None
    budget: int | None = None
    preempt: bool | None = None
    extras: str | None = None
    consolidate: WireConsolidate | None = None


class WireProblem(_Strict, frozen=True):
    version: int
    resources: tuple[str, ...]
    nodes: tuple[WireNode, ...]
    gangs: tuple[WireGang, ...]
    topologies: tuple[WireTopology, ...] | None = None
    options: WireOptions | None = None
