"""What the rules go by beside the objects: how the operator is configured and what its back-ends can honour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.labels import SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.roles import user_of, users_in
from spinney.core.expansion.backends import Capabilities

KAI = Capabilities(gang=True, required_topology=True, preferred_topology=True, numa=True)
KNOWN_BACKENDS: Mapping[str, Capabilities] = {SCHEDULER_KAI: KAI, SCHEDULER_DEFAULT: Capabilities()}


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """The operator as its rules see it."""

    topology_enabled: bool = True
    default_topology: str = DEFAULT_TOPOLOGY
    writes_default: bool = True  # the operator writes the default topology itself at start-up (C3)
    backends: Mapping[str, Capabilities] = field(default_factory=lambda: dict(KNOWN_BACKENDS))
    default_backend: str = SCHEDULER_KAI
    operator_users: frozenset[str] = frozenset({user_of("operator")})
    scheduler_users: frozenset[str] = frozenset({user_of("scheduler")})
    dynamo_users: frozenset[str] = frozenset({user_of("dynamo")})
    mnnvl_enabled: bool = False
    protects_topologies: bool = True
    protects_managed: bool = False
    requires_queue: bool = False
    exempt_users: frozenset[str] = frozenset()

    def users_of(self, roles: Iterable[str]) -> frozenset[str]:
        """The user names of roles that write."""
        known = {"operator": self.operator_users, "scheduler": self.scheduler_users, "dynamo": self.dynamo_users}
        return frozenset().union(*(known[role] for role in roles))


def settings_of(
    configuration: OperatorConfiguration,
    users: Mapping[str, str] | None = None,
    capabilities: Mapping[str, Capabilities] = KNOWN_BACKENDS,
) -> AdmissionSettings:
    """The settings that a configuration file means; a profile without known capabilities can honour nothing.

    `users`: under which name the API server knows each role of ours, where that is not the one it is shipped with.
    """
    known = {role: frozenset({user}) for role, user in {**users_in(), **(users or {})}.items()}
    declared = {one.name: capabilities.get(one.name, Capabilities()) for one in configuration.scheduler.profiles}
    kai = configuration.profile(SCHEDULER_KAI)
    if kai is not None and not kai.kai.numa:
        declared[SCHEDULER_KAI] = replace(declared[SCHEDULER_KAI], numa=False)
    return AdmissionSettings(
        topology_enabled=configuration.topology_enabled,
        default_topology=configuration.default_topology,
        writes_default=configuration.writes_default_topology,
        backends=declared,
        default_backend=configuration.default_profile,
        operator_users=known["operator"],
        scheduler_users=known["scheduler"],
        dynamo_users=known["dynamo"],
        mnnvl_enabled=configuration.network.auto_mnnvl_enabled,
        protects_topologies=configuration.topology_aware_scheduling.protect_used,
        protects_managed=configuration.authorizer.enabled,
        requires_queue=kai is not None and kai.kai.require_queue,
        exempt_users=frozenset(configuration.authorizer.exempt_service_account_user_names),
    )
