"""The KAI scheduler: a PodGroup with a tree of sub-groups for each gang (G11), a Topology for each topology (C5).

Never touches a PodGroup or a Topology that is not ours, and keeps what the scheduler writes on those that are.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from spinney.api import generated_names
from spinney.api.changes import Change, Create, Delete, EmitEvent, Json, Resource, resource_of
from spinney.api.domains import NUMA, rank
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology, ClusterTopologyBinding
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import GangTopologyConstraint, PodGang
from spinney.api.kinds.podgroup import PodGroupSpec, PodGroupTopologyConstraint, SubGroup
from spinney.api.labels import (
    DEFAULT_QUEUE,
    HOSTNAME,
    KAI_NODE_POOL,
    KAI_QUEUE,
    KAI_SKIP_PODGROUPER,
    KAI_SUBGROUP_NAME,
    KAI_TOPOLOGY,
    POD_GROUP_NAME,
    SCALED_GANGS,
    SCHEDULER_KAI,
    TIED_TO,
    TOPOLOGY_NAME,
)
from spinney.api.meta import ObjectMeta
from spinney.api.reserved_keys import without_reserved
from spinney.core.expansion.backends import Capabilities, Find, Marks, Twin
from spinney.core.expansion.objects import (
    KAI_TOPOLOGIES,
    PODGANGS,
    PODGROUPS,
    TOPOLOGY_BINDINGS,
    difference,
    entries_patch,
    owner_reference,
    patch_object,
    to_builtins,
)

_TIES = (TIED_TO, SCALED_GANGS)


@dataclass(frozen=True, slots=True)
class Kai:
    """`numa`: whether the scheduler behind it can go below the host; upstream's cannot."""

    name: str = SCHEDULER_KAI
    manages_topologies: bool = True
    numa: bool = True
    watches: tuple[Resource, ...] = (KAI_TOPOLOGIES, PODGROUPS)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(gang=True, required_topology=True, preferred_topology=True, numa=self.numa)

    def mark_gang(self, podcliqueset: PodCliqueSet) -> Marks:
        """The queue that clique templates name where the set itself names none."""
        metadata = podcliqueset.metadata
        if KAI_QUEUE in metadata.labels or KAI_QUEUE in metadata.annotations:
            return Marks()
        templates = podcliqueset.spec.template.cliques
        named = (each.labels.get(KAI_QUEUE) or each.annotations.get(KAI_QUEUE) for each in templates)
        queue = next((name for name in named if name), "")
        return Marks({KAI_QUEUE: queue}) if queue else Marks()

    def mark_pod(self, gang: str, clique: str) -> Marks:
        annotations = {KAI_SKIP_PODGROUPER: "true", POD_GROUP_NAME: generated_names.kai_podgroup(gang)}
        return Marks({KAI_SUBGROUP_NAME: clique}, annotations)

    def sync_gang(self, gang: PodGang, find: Find) -> tuple[Change, ...]:
        name = generated_names.kai_podgroup(gang.metadata.name)
        live = find(PODGROUPS, gang.metadata.namespace, name)
        if live is None:
            return (_podgroup(gang, name, find),)
        metadata = msgspec.convert(live["metadata"], ObjectMeta)
        if not _is_controlled(metadata, gang.metadata.uid):
            message = f"PodGroup {name} is not owned by PodGang {gang.metadata.name} and is left alone"
            target = PODGANGS.of(gang.metadata)
            return (
                EmitEvent(target, gang.metadata.uid, "KAIBackendMappingFailed", message, metadata.uid, warning=True),
            )
        if metadata.deletion_timestamp is not None:
            return ()
        return _put_right(gang, metadata, msgspec.convert(live.get("spec") or {}, PodGroupSpec), find)

    def twin_of(self, topology: AnyTopology, find: Find) -> Twin | None:
        bound = topology.reference(self.name) if isinstance(topology, ClusterTopologyBinding) else ""
        name = bound or generated_names.kai_topology(topology.metadata.name)
        manages = self.manages_topologies and not bound
        live = find(KAI_TOPOLOGIES, "", name)
        keys = topology_keys(topology)
        wanted = [{"nodeLabel": key} for key in keys]
        if manages and (unfit := _unfit(keys)):
            return Twin(name, False, f'KAI Topology "{name}" cannot be made: {unfit}')
        fresh = (_topology(topology, name, wanted),) if manages else ()
        if live is None:
            return Twin(name, False, f'KAI Topology "{name}" not found', changes=fresh)
        metadata = msgspec.convert(live["metadata"], ObjectMeta)
        in_sync = live["spec"]["levels"] == wanted
        generation = metadata.generation
        if manages and _is_of_namesake(metadata, topology):
            return Twin(name, False, foreign_topology(topology), generation, _anew(metadata, fresh))
        if manages and not _is_controlled(metadata, topology.metadata.uid):
            return Twin(name, False, foreign_topology(topology), generation)
        if in_sync:
            return Twin(name, True, generation=generation)
        message = f"KAI Topology levels differ from {topology.KIND} levels"
        return Twin(name, False, message, generation, _anew(metadata, fresh) if fresh else ())


def foreign_topology(topology: AnyTopology) -> str:
    name, kind = topology.metadata.name, topology.KIND
    return (
        f"KAI Topology {name} is not owned by {kind} {name}. It is required that KAI Topology by this name is "
        f"created by Grove operator and has {kind} set as its owner"
    )


def _anew(metadata: ObjectMeta, fresh: tuple[Change, ...]) -> tuple[Change, ...]:
    """Deleted and made again: KAI's topologies cannot be changed."""
    return (Delete(KAI_TOPOLOGIES.at(metadata.name), metadata.uid), *fresh)


def _is_of_namesake(metadata: ObjectMeta, topology: AnyTopology) -> bool:
    """Whether it was made for the ClusterTopology that this binding stands before (T8)."""
    owner = metadata.controller
    return (
        isinstance(topology, ClusterTopologyBinding)
        and owner is not None
        and (owner.kind, owner.name) == (ClusterTopology.KIND, topology.metadata.name)
    )


def _unfit(keys: list[str]) -> str:
    """Why KAI would refuse these levels; empty if they are valid."""
    if not keys:
        return "none of its levels is a node label"
    if HOSTNAME in keys[:-1]:
        return f"{HOSTNAME} can only be the key of the narrowest level"
    return ""


def topology_keys(topology: AnyTopology) -> list[str]:
    """The node labels from coarse to fine; levels below the host have no node label."""
    levels = sorted(topology.spec.levels, key=lambda level: rank(level.domain))
    return [level.key for level in levels if level.domain != NUMA]


def podgroup_spec(gang: PodGang, bound: str = "") -> PodGroupSpec:
    """The gang as a tree: group configs with their pod groups below them, all other pod groups at the root.

    `bound`: KAI's own name for the topology of the gang, where it is another one.
    """
    spec, topology = gang.spec, bound or gang.metadata.annotations.get(TOPOLOGY_NAME, "")
    parents = {
        name: config.name for config in spec.topology_constraint_group_configs for name in config.pod_group_names
    }
    groups = [
        SubGroup(
            name=config.name,
            min_sub_group=len(config.pod_group_names),
            topology_constraint=_constraint(config.topology_constraint, topology),
        )
        for config in spec.topology_constraint_group_configs
        if config.pod_group_names
    ]
    leaves = [
        SubGroup(
            name=group.name,
            min_member=group.min_replicas,
            parent=parents.get(group.name),
            topology_constraint=_constraint(group.topology_constraint, topology),
        )
        for group in spec.podgroups
    ]
    return PodGroupSpec(
        min_member=sum(group.min_replicas for group in spec.podgroups),
        queue=gang.metadata.labels.get(KAI_QUEUE) or gang.metadata.annotations.get(KAI_QUEUE) or DEFAULT_QUEUE,
        priority_class_name=spec.priority_class_name,
        topology_constraint=_constraint(spec.topology_constraint, topology) or PodGroupTopologyConstraint(),
        sub_groups=(*groups, *leaves),
    )


def _constraint(constraint: GangTopologyConstraint | None, topology: str) -> PodGroupTopologyConstraint | None:
    if constraint is None or constraint.pack_constraint is None:
        return None
    pack = constraint.pack_constraint
    return PodGroupTopologyConstraint(topology, pack.required, pack.preferred)


def _bound(gang: PodGang, find: Find) -> str:
    """The name that a binding gives for the topology of the gang (T8); empty where it has the same one."""
    name = gang.metadata.annotations.get(TOPOLOGY_NAME, "")
    found = find(TOPOLOGY_BINDINGS, "", name) if name else None
    return msgspec.convert(found, ClusterTopologyBinding).reference(SCHEDULER_KAI) if found is not None else ""


def _podgroup(gang: PodGang, name: str, find: Find) -> Create:
    body = _body(PODGROUPS, name, owner_reference(PODGANGS, gang.metadata))
    metadata = body["metadata"]
    metadata |= {"namespace": gang.metadata.namespace, "labels": dict(gang.metadata.labels)}
    metadata["annotations"] = _annotations(gang)
    body["spec"] = to_builtins(podgroup_spec(gang, _bound(gang, find)))
    return Create(PODGROUPS.at(name, gang.metadata.namespace), body)


def _put_right(gang: PodGang, metadata: ObjectMeta, live: PodGroupSpec, find: Find) -> tuple[Change, ...]:
    """Correct minima, constraints and priority, which we own; queue, node pool, marking and backoff are kept."""
    wanted = msgspec.structs.replace(
        podgroup_spec(gang, _bound(gang, find)),
        queue=live.queue,
        preemptibility=live.preemptibility,
        mark_unschedulable=live.mark_unschedulable,
        scheduling_backoff=live.scheduling_backoff,
    )
    annotations = _annotations(gang)
    gone = {key: None for key in (TOPOLOGY_NAME, *_TIES) if key in metadata.annotations and key not in annotations}
    # Queue and node pool are chosen when the PodGroup is made; later they belong to whoever moves the gang.
    of_others = {KAI_QUEUE} | ({KAI_NODE_POOL} if metadata.labels.get(KAI_NODE_POOL) else set())
    labels = {key: value for key, value in gang.metadata.labels.items() if key not in of_others}
    changed = {
        "labels": entries_patch(metadata.labels, labels),
        "annotations": entries_patch(metadata.annotations, annotations) | gone,
    }
    patch: Json = {
        "metadata": {key: value for key, value in changed.items() if value},
        "spec": difference(to_builtins(live), to_builtins(wanted)),
    }
    return patch_object(PODGROUPS, metadata, patch)


def _annotations(gang: PodGang) -> Json:
    """The annotations to pass on; of the reserved ones only those about the domain that a whole set shares."""
    found = gang.metadata.annotations
    passed = {key: value for key, value in without_reserved(found).items() if key != KAI_TOPOLOGY}
    ties = {key: found[key] for key in _TIES if key in found}
    return passed | ties | {KAI_SKIP_PODGROUPER: "true"}


def _topology(topology: AnyTopology, name: str, levels: list[Json]) -> Create:
    body = _body(KAI_TOPOLOGIES, name, owner_reference(resource_of(type(topology)), topology.metadata))
    return Create(KAI_TOPOLOGIES.at(name), {**body, "spec": {"levels": levels}})


def _body(resource: Resource, name: str, owner: Json) -> Json:
    metadata: Json = {"name": name, "ownerReferences": [owner]}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _is_controlled(metadata: ObjectMeta, uid: str) -> bool:
    owner = metadata.controller
    return owner is not None and owner.uid == uid
