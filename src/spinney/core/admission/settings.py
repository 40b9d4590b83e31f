"""What the rules go by beside the objects: how the operator is configured and what its back-ends can honour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spinney.api.labels import KAI_QUEUE, SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.naming import DEFAULT_TOPOLOGY
from spinney.api.operator_configuration import OperatorConfiguration


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a scheduler back-end declares that it can honour (G10)."""

    gang: bool = False
    required_topology: bool = False
    preferred_topology: bool = False
    numa: bool = False
    queue_key: str = ""  # the label or annotation that names the queue; empty where there are no queues


KAI = Capabilities(gang=True, required_topology=True, preferred_topology=True, numa=True, queue_key=KAI_QUEUE)
KNOWN_BACKENDS: Mapping[str, Capabilities] = {SCHEDULER_KAI: KAI, SCHEDULER_DEFAULT: Capabilities()}


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The operator as its rules see it."""

    topology_enabled: bool = True
    default_topology: str = DEFAULT_TOPOLOGY
    writes_default: bool = True  # the operator writes the default topology itself at start-up (C3)
    backends: Mapping[str, Capabilities] = field(default_factory=lambda: dict(KNOWN_BACKENDS))
    default_backend: str = SCHEDULER_KAI
    operator_users: frozenset[str] = frozenset()
    mnnvl_enabled: bool = False


def settings_of(
    configuration: OperatorConfiguration,
    operator_users: frozenset[str] = frozenset(),
    capabilities: Mapping[str, Capabilities] = KNOWN_BACKENDS,
) -> AdmissionSettings:
    """The settings that a configuration file means; a profile without known capabilities has none."""
    declared = {
        profile.name: _narrowed(capabilities.get(profile.name, Capabilities()), profile.kai.numa)
        for profile in configuration.scheduler.profiles
    }
    return AdmissionSettings(
        topology_enabled=configuration.topology_enabled,
        default_topology=configuration.default_topology,
        writes_default=configuration.writes_default_topology,
        backends=declared,
        default_backend=configuration.default_profile,
        operator_users=operator_users,
        mnnvl_enabled=configuration.network.auto_mnnvl_enabled,
    )


def _narrowed(declared: Capabilities, numa: bool) -> Capabilities:
    if numa or not declared.numa:
        return declared
    return Capabilities(
        declared.gang, declared.required_topology, declared.preferred_topology, False, declared.queue_key
    )
