"""The layout of a set: its members, groups and gangs by replica, from its template (G2).

Names are made here and compared, never taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from spinney.api import generated_names
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplate
from spinney.api.labels import PODCLIQUESET_REPLICA_INDEX, SCALING_GROUP, SCALING_GROUP_REPLICA_INDEX
from spinney.api.meta import MOST_PODCLIQUES, MOST_PODS, ObjectMeta
from spinney.core.expansion.objects import short_hash

# Revisions: short words for what pods are made of (2.8).
#
# Replicas, topology, startup order and shared claims are no part of them: changing those replaces no pod.


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revision of the whole set, and of the pods of each clique of its template."""

    whole: str
    cliques: Mapping[str, str]


def revisions_of(podcliqueset: PodCliqueSet) -> Revisions:
    template = podcliqueset.spec.template
    cliques = {
        clique.name: short_hash([clique.labels, clique.annotations, clique.spec.pod_spec, template.priority_class_name])
        for clique in template.cliques
    }
    return Revisions(short_hash(sorted(cliques.items())), cliques)


@dataclass(frozen=True, slots=True)
class Group:
    """A scaling group of one set replica, and how many replicas it has at present."""

    name: str
    config: PodCliqueScalingGroupConfig
    replica: int
    replicas: int

    @property
    def base_replicas(self) -> range:
        """The group replicas that belong to the base gang."""
        return range(min(self.config.min_available, self.replicas))

    @property
    def scaled_replicas(self) -> range:
        """The group replicas that are gangs of their own."""
        return range(self.config.min_available, self.replicas)


@dataclass(frozen=True, slots=True)
class Member:
    """A PodClique that should exist, and where it belongs. `base_gang` is set where the gang is a scaled one."""

    name: str
    template: PodCliqueTemplate
    replica: int
    gang: str
    base_gang: str = ""
    group: Group | None = None
    group_replica: int = 0

    @property
    def min_available(self) -> int:
        return min_available(self.template)


@dataclass(frozen=True, slots=True)
class Gang:
    """A PodGang that should exist; a scaled one names its group and group replica."""

    name: str
    replica: int
    members: tuple[Member, ...]
    groups: tuple[Group, ...] = ()
    group: Group | None = None
    group_replica: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """How many PodCliques and pods a set, or a group of it, stands for."""

    cliques: int
    pods: int

    @property
    def excess(self) -> str:
        """Which limit is exceeded; empty if the size is within the limits."""
        if self.cliques > MOST_PODCLIQUES:
            return f"{self.cliques} PodCliques, at most {MOST_PODCLIQUES} are allowed"
        return f"{self.pods} pods, at most {MOST_PODS} are allowed" if self.pods > MOST_PODS else ""


def size_of(podcliqueset: PodCliqueSet, grown: Mapping[str, int] | None = None) -> Size:
    """Counted, never listed: takes no longer for a billion.

    `grown`: by how many replicas the groups of a name, of all replicas of the set, are larger than the template says.
    """
    template, replicas = podcliqueset.spec.template, podcliqueset.spec.replicas
    by_name = {clique.name: pod_count(clique) for clique in template.cliques}
    times = dict.fromkeys(by_name, replicas)
    for group in template.pod_clique_scaling_groups:
        often = replicas * group.replicas + (grown or {}).get(group.name, 0)
        times |= {name: often for name in group.clique_names if name in by_name}
    return Size(sum(times.values()), sum(often * by_name[name] for name, often in times.items()))


def without_empty_members(gang: Gang, replicas: Mapping[str, int]) -> Gang:
    """The gang without members that were scaled to zero, as long as others are left: the gang need not wait for them.

    `replicas`: of those PodCliques that exist, by name.
    """
    members = tuple(member for member in gang.members if replicas.get(member.name, 1))
    return replace(gang, members=members or gang.members)


LiveReplicas = Callable[[str, PodCliqueScalingGroupConfig], int]
"""How many replicas a group of this name has: those of its object, else those of the template."""


def pod_count(template: PodCliqueTemplate) -> int:
    """The initial number of pods; an undefaulted 0 means 1."""
    return template.spec.replicas or 1


def min_available(template: PodCliqueTemplate) -> int:
    return template.spec.min_available or pod_count(template)


def groups_of(podcliqueset: PodCliqueSet, replica: int, live: LiveReplicas) -> tuple[Group, ...]:
    found = []
    for config in podcliqueset.spec.template.pod_clique_scaling_groups:
        name = generated_names.scaling_group(podcliqueset.metadata.name, replica, config.name)
        found.append(Group(name, config, replica, live(name, config)))
    return tuple(found)


def standalone_members(podcliqueset: PodCliqueSet, replica: int) -> tuple[Member, ...]:
    """The cliques that are in no scaling group, in the order of the template."""
    template, name = podcliqueset.spec.template, podcliqueset.metadata.name
    grouped = {clique for config in template.pod_clique_scaling_groups for clique in config.clique_names}
    gang = generated_names.base_gang(name, replica)
    return tuple(
        Member(generated_names.podclique(name, replica, clique.name), clique, replica, gang)
        for clique in template.cliques
        if clique.name not in grouped
    )


def group_members(podcliqueset: PodCliqueSet, group: Group, group_replica: int) -> tuple[Member, ...]:
    """The cliques of one replica of a group, in the order the group names them."""
    name, least = podcliqueset.metadata.name, group.config.min_available
    base = generated_names.base_gang(name, group.replica)
    scaled = group_replica >= least
    gang = generated_names.scaled_gang(name, group.replica, group.config.name, group_replica, least) if scaled else base
    by_name = {clique.name: clique for clique in podcliqueset.spec.template.cliques}
    return tuple(
        Member(
            generated_names.scaling_group_podclique(name, group.replica, group.config.name, group_replica, clique),
            by_name[clique],
            group.replica,
            gang,
            base if scaled else "",
            group,
            group_replica,
        )
        for clique in group.config.clique_names
        if clique in by_name
    )


def gangs_of(podcliqueset: PodCliqueSet, replica: int, groups: tuple[Group, ...]) -> Iterator[Gang]:
    """The base gang, then one gang for each group replica above the minimum."""
    members = list(standalone_members(podcliqueset, replica))
    for group in groups:
        for group_replica in group.base_replicas:
            members += group_members(podcliqueset, group, group_replica)
    yield Gang(generated_names.base_gang(podcliqueset.metadata.name, replica), replica, tuple(members), groups)
    for group in groups:
        for group_replica in group.scaled_replicas:
            within = group_members(podcliqueset, group, group_replica)
            if within:
                yield Gang(within[0].gang, replica, within, (), group, group_replica)


def member_of(podcliqueset: PodCliqueSet, clique: PodClique) -> Member | None:
    """Which member of the set a PodClique is, by its labels and its exact name."""
    replica = index_label(clique.metadata, PODCLIQUESET_REPLICA_INDEX)
    if replica is None:
        return None
    group_replica = index_label(clique.metadata, SCALING_GROUP_REPLICA_INDEX)
    if group_replica is None:
        candidates = standalone_members(podcliqueset, replica)
    else:
        wanted = clique.metadata.labels.get(SCALING_GROUP, "")
        groups = groups_of(podcliqueset, replica, lambda name, config: group_replica + 1)
        group = next((each for each in groups if each.name == wanted), None)
        candidates = group_members(podcliqueset, group, group_replica) if group is not None else ()
    return next((member for member in candidates if member.name == clique.metadata.name), None)


def index_label(metadata: ObjectMeta, key: str) -> int | None:
    """The number in a label; None where there is none."""
    text = metadata.labels.get(key, "")
    return int(text) if text.isdecimal() else None
