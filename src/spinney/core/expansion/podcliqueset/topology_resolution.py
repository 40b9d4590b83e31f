"""Resolves topology domains to node-label keys: the effective topology of a set and its constraints (G3-G9, S1, T6)."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.api.domains import NUMA, rank
from spinney.api.kinds.clustertopology import AnyTopology, TopologyLevel
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import GangTopologyConstraint, PackConstraint
from spinney.api.kinds.topology_constraint import TopologyConstraint
from spinney.core.expansion.objects import FALSE, TRUE, UNKNOWN, ConditionChange
from spinney.core.expansion.podcliqueset.set_layout import Member
from spinney.core.expansion.settings import AutoPreferred, Settings
from spinney.core.topology_constraints import constraints_of

TOPOLOGY_LEVELS_UNAVAILABLE = "TopologyLevelsUnavailable"


@dataclass(frozen=True, slots=True)
class ResolvedTopology:
    """The current meaning of a set's constraints. Without levels they have no effect."""

    name: str = ""
    levels: tuple[TopologyLevel, ...] = ()
    auto_preferred: AutoPreferred = AutoPreferred.NEVER
    finding: ConditionChange | None = None

    def key_of(self, domain: str) -> str:
        """The node label of a domain; empty where the topology does not have it."""
        return next((level.key for level in self.levels if level.domain == domain), "")

    def pack(self, constraint: TopologyConstraint | None) -> GangTopologyConstraint | None:
        """The constraint for the PodGang; None if none of its levels can be resolved."""
        required = self.key_of(constraint.required) if constraint is not None else ""
        preferred = self.key_of(constraint.preferred) if constraint is not None else ""
        if not preferred:
            preferred = self._preferred(constraint.required if constraint is not None and required else "")
        if not required and not preferred:
            return None
        return GangTopologyConstraint(PackConstraint(required, preferred))

    def _preferred(self, required: str) -> str:
        """The narrowest level that schedulers know, where it is narrower than what is required (G6)."""
        wanted = self.auto_preferred is AutoPreferred.ALWAYS or (
            self.auto_preferred is AutoPreferred.CONSTRAINED and required
        )
        known = [level for level in self.levels if level.domain != NUMA]
        if not wanted or not known:
            return ""
        narrowest = known[-1]
        return narrowest.key if not required or rank(narrowest.domain) > rank(required) else ""

    def node_keys(self, podcliqueset: PodCliqueSet, member: Member) -> tuple[str, ...]:
        """The labels a node must have for the pods of a member: those of the topology, if the member is under it."""
        group = member.group.config.topology_constraint if member.group is not None else None
        own = member.template.topology_constraint
        if own is None and group is None and podcliqueset.spec.template.topology_constraint is None:
            return ()
        return tuple(level.key for level in self.levels if level.domain != NUMA)


def resolve_topology(
    podcliqueset: PodCliqueSet, topology: AnyTopology | None, name: str, settings: Settings
) -> ResolvedTopology:
    """The translation of a set, given the topology of the effective name if there is one."""
    asked = sorted(
        {
            domain
            for constraint in constraints_of(podcliqueset)
            for domain in (constraint.required, constraint.preferred)
            if domain
        },
        key=rank,
    )
    if not settings.topology_enabled:
        return ResolvedTopology(finding=_disabled() if asked else None)
    if not asked and settings.auto_preferred is not AutoPreferred.ALWAYS:
        return ResolvedTopology()
    if topology is None:
        return ResolvedTopology(name, finding=_not_found(name) if asked else None)
    levels = tuple(sorted(topology.spec.levels, key=lambda level: rank(level.domain)))
    known = {level.domain for level in levels}
    missing = [domain for domain in asked if domain not in known]
    finding = (_unavailable(missing) if missing else _available()) if asked else None
    return ResolvedTopology(name, levels, settings.auto_preferred, finding)


def _disabled() -> ConditionChange:
    message = "Topology aware scheduling is disabled; topology constraints are not applied"
    return ConditionChange(TOPOLOGY_LEVELS_UNAVAILABLE, UNKNOWN, "TopologyAwareSchedulingDisabled", message)


def _not_found(name: str) -> ConditionChange:
    message = f'ClusterTopology "{name}" not found'
    return ConditionChange(TOPOLOGY_LEVELS_UNAVAILABLE, UNKNOWN, "ClusterTopologyNotFound", message)


def _unavailable(missing: list[str]) -> ConditionChange:
    message = f"Unavailable topology domains: [{' '.join(missing)}]"
    return ConditionChange(TOPOLOGY_LEVELS_UNAVAILABLE, TRUE, "ClusterTopologyLevelsUnavailable", message)


def _available() -> ConditionChange:
    message = "All topology levels are available"
    return ConditionChange(TOPOLOGY_LEVELS_UNAVAILABLE, FALSE, "AllClusterTopologyLevelsAvailable", message)
