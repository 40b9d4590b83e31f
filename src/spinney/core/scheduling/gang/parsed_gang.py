"""Parses a PodGroup and its pods into the gang that placement decides.

Decides nothing: errors become a sentence, pods that cannot take part yet are held with a reason, and all others are in
the gang. `is_gathering` says without parsing that too few pods exist yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from spinney.api import generated_names
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.podgroup import PodGroup, PodGroupSpec
from spinney.api.labels import DEFAULT_QUEUE, KAI_SUBGROUP_NAME, SCALED_GANGS, TIED_TO
from spinney.api.placement.problem import Gang, Group, PodSet, Tie, Topology
from spinney.api.scaled_gangs import ScaledGangs, decode
from spinney.core.scheduling.affinity.terms import AffinityTerms
from spinney.core.scheduling.gang.members import Members, leaf_of, sort_members
from spinney.core.scheduling.gang.pod_shape import PodShape, Shapes, shapes_on
from spinney.core.scheduling.gang.podsets import GangMembership, HeldPod, WaitingPod, cut
from spinney.core.scheduling.gang.predecessors import Homes
from spinney.core.scheduling.gang.priorities import NEVER, Priorities, all_carry, is_preemptible
from spinney.core.scheduling.gang.ranks import Topologies, read_segmentation
from spinney.core.scheduling.gang.subgroup_tree import (
    DEFAULT_LEAF,
    SubGroupError,
    SubGroupNode,
    check_levels,
    loosened,
    read_tree,
)
from spinney.core.scheduling.volumes import NO_VOLUMES, ClaimLookup, Volumes, claims_reach, narrowed, reach

__all__ = ["Context", "HeldPod", "ParsedGang", "WaitingPod", "gang_name", "read_gang", "shape_in"]


@dataclass(frozen=True, slots=True)
class Context:
    """Lookups that parsing needs. `topologies` None: levels are not checked here but by placement.

    `short_levels`: the names that ClusterTopologies give to levels, by topology. `has_node`: which nodes exist; a
    member on any other node does not determine the domain of the gang. `homes`: where replaced pods are to return, by
    uid (G13); they are part of the minimum. `unreadable`: what of a gang (namespace, name) cannot be decoded, "" if
    nothing; such a gang is held. `is_limited`: whether a quota of a namespace limits a PriorityClass.
    `has_config_map`: whether a namespace has a ConfigMap of a name.
    """

    resources: tuple[str, ...]
    priorities: Priorities = field(default_factory=Priorities)
    volumes: Volumes = NO_VOLUMES
    claim: ClaimLookup = lambda namespace, name: None
    topologies: Mapping[str, Topology] | None = None
    short_levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    has_node: Callable[[str], bool] = lambda name: True
    unreadable: Callable[[str, str], str] = lambda namespace, name: ""
    is_limited: Callable[[str, str], bool] = lambda namespace, name: False
    has_config_map: Callable[[str, str], bool] = lambda namespace, name: True
    homes: Homes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedGang:
    """A gang and its pods. Only a gang that is `ready` and without `mistake` is decided.

    - `waiting`: pods without a node by path of their pod set, in the order that the `index` of placements refers to.
    - `members`: the pod set of every pod in the gang, by uid.
    - `segments`: the segment of pods that are in one; `blocks`: with the leaf it is a part of.
    - `held`: pods without a node that take no part in a decision, with the reason.
    - `gated`: the number of pods with a scheduling gate.
    - `preempts`: it may preempt gangs of lower priority.
    - `affinity_terms`: the pod affinity terms of waiting pods.
    - `scaled_gangs`: the gangs that its set asks for beside it, in its domain.
    """

    gang: Gang
    queue: str
    waiting: Mapping[str, tuple[WaitingPod, ...]] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    segments: Mapping[str, int] = field(default_factory=dict)
    blocks: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    held: tuple[HeldPod, ...] = ()
    gated: int = 0
    ready: bool = True
    not_ready: str = ""
    mistake: str = ""
    preempts: bool = True
    affinity_terms: Mapping[str, AffinityTerms] = field(default_factory=dict)
    scaled_gangs: tuple[ScaledGangs, ...] = ()


def gang_name(podgroup: PodGroup) -> str:
    """The namespace is part of it: PodGroups of one name in two namespaces are two gangs."""
    return f"{podgroup.metadata.namespace}/{podgroup.metadata.name}"


def read_gang(podgroup: PodGroup, pods: Sequence[Pod], context: Context) -> ParsedGang:
    """Parse the gang. Members are counted before placement: one incomplete leaf keeps the whole gang waiting.

    Once members run, the gang has started: it is repaired and scaled up, and an incomplete leaf waits alone.
    """
    tie, mistakes = _tie(podgroup)
    membership, root, readiness = GangMembership(), Group(""), (False, "")
    try:
        root, readiness = _read_members(podgroup, pods, context, membership, mistakes)
    except SubGroupError as mistake:
        mistakes.append(str(mistake))
        membership = GangMembership()
        membership.hold(sort_members(pods, context.has_node).waiting, str(mistake))
    ready, not_ready = readiness
    priority = _priority(podgroup, pods, context)
    return ParsedGang(
        gang=Gang(
            name=gang_name(podgroup),
            root=root,
            priority=priority,
            preemptible=is_preemptible(podgroup.spec.preemptibility, priority),
            tied_to=tie,
            running=tuple(membership.running),
            short=frozenset(membership.short),
        ),
        queue=podgroup.spec.queue or DEFAULT_QUEUE,
        waiting=membership.waiting,
        members=membership.members,
        segments=membership.segments,
        blocks=membership.blocks,
        held=tuple(membership.held),
        gated=sum([bool(pod.spec.scheduling_gates) for pod in pods]),
        ready=ready,
        not_ready=not_ready,
        mistake="; ".join(dict.fromkeys(mistakes)),
        preempts=_preempts(podgroup, pods, context),
        affinity_terms=membership.affinity_terms,
        scaled_gangs=decode(declared)
        if (declared := podgroup.metadata.annotations.get(SCALED_GANGS)) is not None
        else (),
    )


def _read_members(
    podgroup: PodGroup, pods: Sequence[Pod], context: Context, membership: GangMembership, mistakes: list[str]
) -> tuple[Group, tuple[bool, str]]:
    """The tree of pod sets, and whether it may be decided, with the reason; fills `membership` and `mistakes`."""
    tree, wrong = _checked(read_tree(podgroup.spec), context)
    unreadable = context.unreadable(podgroup.metadata.namespace, podgroup.metadata.name)
    wrong += [unreadable] if unreadable else []
    leaves, strays = _assign_to_leaves(podgroup, tree, pods, context)
    for reason, stray in strays:
        membership.hold([stray], wrong[0] if wrong else reason)
        mistakes += wrong or [reason]
    reader = _Reader(podgroup, context, leaves, membership, shapes_on(context.resources))
    root, ready, not_ready = reader.read(tree)
    if not wrong and not reader.mistakes:
        return root, (ready, not_ready)
    mistakes += [*wrong, *reader.mistakes]
    _hold_back(membership, [pod for members in leaves.values() for pod in members.waiting], mistakes[-1])
    return root, (False, "")


def _checked(tree: SubGroupNode, context: Context) -> tuple[SubGroupNode, list[str]]:
    """If a topology does not exist (any more), constraints are dropped: it is still known which members run where."""
    if context.topologies is None:
        return tree, []
    try:
        check_levels(tree, context.topologies)
    except SubGroupError as mistake:
        return loosened(tree, context.topologies), [str(mistake)]
    return tree, []


def _hold_back(membership: GangMembership, pods: Sequence[Pod], reason: str) -> None:
    """Hold these pods: none is placed, but running members stay known."""
    for pod in pods:
        membership.members.pop(pod.metadata.uid, None)
    membership.waiting.clear()
    membership.held = [one for one in membership.held if one.uid not in {pod.metadata.uid for pod in pods}]
    membership.hold(pods, reason)


def shape_in(pod: Pod, shapes: Shapes, context: Context) -> PodShape:
    """The shape of a pod, restricted by volumes, claims and where it is to return to; held without its ConfigMaps."""
    shape = shapes.of(pod)
    home = context.homes.get(pod.metadata.uid)
    if home is not None:
        allowed = narrowed(shape.filter, ((home,),))
        shape = msgspec.structs.replace(shape, filter=allowed if allowed is not None else shape.filter)
    if not pod.spec.volumes and not pod.spec.resource_claims and not pod.spec.config_maps:
        return shape
    places = (reach(pod, context.volumes), claims_reach(pod, context.claim))
    missing = [
        f'configmap "{name}" not found, which {field} names'
        for name, field in (pod.spec.config_maps or {}).items()
        if not context.has_config_map(pod.metadata.namespace, name)
    ]
    texts = [text for text in (shape.unsupported, *(place.waits for place in places), *missing) if text]
    required = tuple(terms for place in places for terms in place.required)
    allowed = narrowed(shape.filter, required) if required else shape.filter
    if allowed is None:
        texts.append("the node affinities of the pod and its volumes have too many combinations")
        allowed = shape.filter
    if not texts and allowed == shape.filter:
        return shape
    return msgspec.structs.replace(shape, filter=allowed, unsupported="; ".join(texts))


class _Reader:
    """Builds the tree of one gang bottom up, and fills its membership."""

    def __init__(
        self,
        podgroup: PodGroup,
        context: Context,
        leaves: Mapping[str, Members],
        membership: GangMembership,
        shapes: Shapes,
    ) -> None:
        self._annotations = podgroup.metadata.annotations
        self._context = context
        self._leaves = leaves
        self._membership = membership
        self._topologies = Topologies(context.topologies, context.short_levels)
        self._shape_of = lambda pod: shape_in(pod, shapes, context)
        self._lone = not podgroup.spec.sub_groups
        self._ready = True
        self.mistakes: list[str] = []

    def read(self, root: SubGroupNode) -> tuple[Group, bool, str]:
        self._ready = self._has_started(root) or self._is_ready(root)
        built = self._build(root, None)
        whole = built if isinstance(built, Group) else Group("")
        return whole, self._ready, "" if self._ready else self._text(root)

    def _build(self, branch: SubGroupNode, inherited: str | None) -> Group | PodSet | None:
        """None: no part of it is placed. In a gang that is ready, parts that are not ready are held."""
        if self._ready and not self._has_started(branch) and not self._is_ready(branch):
            reason = self._text(branch)
            for leaf in branch.leaves():
                self._membership.hold(self._leaves[leaf.name].waiting, reason)
            return None
        topology = branch.constraint.topology or inherited
        if not branch.kids:
            return self._build_leaf(branch, topology)
        built = [self._build(kid, topology) for kid in branch.kids]
        kids = [kid for kid in built if kid is not None]
        if not kids:
            return None
        missing = sum(made is None and self._is_missed(kid) for kid, made in zip(branch.kids, built, strict=True))
        if len(branch.kids) - missing < (len(branch.kids) if branch.min_groups is None else branch.min_groups):
            self._membership.short.add(branch.path)
        return Group(
            branch.name,
            groups=tuple([kid for kid in kids if isinstance(kid, Group)]),
            pods=tuple([kid for kid in kids if isinstance(kid, PodSet)]),
            min_groups=self._min_groups(branch, len(kids)),
            topology=branch.constraint.topology,
            required=branch.constraint.required,
            preferred=branch.constraint.preferred,
        )

    def _build_leaf(self, leaf: SubGroupNode, topology: str | None) -> Group | PodSet | None:
        members = self._leaves[leaf.name]
        pods = [*members.running, *members.waiting]
        if not pods:
            return None
        if len(pods) < members.needed(leaf.min_member):
            self._membership.short.add(leaf.path)
        try:
            segmentation = read_segmentation(pods, self._annotations, leaf.name, topology, self._topologies)
        except SubGroupError as mistake:
            self.mistakes.append(str(mistake))
            segmentation = None
        return cut(leaf, members, segmentation, self._shape_of, self._membership, self._context.homes)

    def _min_groups(self, branch: SubGroupNode, kids: int) -> int | None:
        """A child all of whose pods succeeded counts as scheduled."""
        if branch.min_groups is None:
            return None
        done = sum(self._is_done(kid) for kid in branch.kids)
        return min(max(0, branch.min_groups - done), kids)

    def _is_missed(self, branch: SubGroupNode) -> bool:
        """Whether a child that is not placed is a required one."""
        return not self._is_done(branch) and any(leaf.min_member for leaf in branch.leaves())

    def _is_ready(self, branch: SubGroupNode) -> bool:
        if not branch.kids:
            return self._leaves[branch.name].are_ready(branch.min_member)
        ready = sum(self._is_ready(kid) for kid in branch.kids)
        return ready >= (len(branch.kids) if branch.min_groups is None else branch.min_groups)

    def _has_started(self, branch: SubGroupNode) -> bool:
        return any(self._leaves[leaf.name].started for leaf in branch.leaves())

    def _is_done(self, branch: SubGroupNode) -> bool:
        return all(
            members.succeeded and not members.alive for members in (self._leaves[leaf.name] for leaf in branch.leaves())
        )

    def _text(self, branch: SubGroupNode) -> str:
        """The reason, for the first leaf that is not complete."""
        leaf = next(leaf for leaf in branch.leaves() if not self._leaves[leaf.name].are_ready(leaf.min_member))
        members = self._leaves[leaf.name]
        wanted, exist, gated = members.needed(leaf.min_member), members.alive, members.gated
        start = f"Job is not ready for scheduling. Waiting for {wanted} pods"
        if self._lone:
            return f"{start}, currently {exist} exist, {gated} are gated"
        return f"{start} for SubGroup {leaf.name}, currently {exist} exist, {gated} are gated."


def _assign_to_leaves(
    podgroup: PodGroup, tree: SubGroupNode, pods: Sequence[Pod], context: Context
) -> tuple[dict[str, Members], list[tuple[str, Pod]]]:
    """The members of every leaf, and the waiting pods that belong to no leaf, each with the reason."""
    names = [leaf.name for leaf in tree.leaves()]
    by_leaf: dict[str, list[Pod]] = {name: [] for name in names}
    strays: list[Pod] = []
    for pod in pods:
        by_leaf.get(leaf_of(pod), strays).append(pod)
    leaves = {name: sort_members(by_leaf[name], context.has_node) for name in names}
    lost = sort_members(strays, context.has_node).waiting if strays else []
    return leaves, [(_stray(pod, podgroup), pod) for pod in lost]


def _priority(podgroup: PodGroup, pods: Sequence[Pod], context: Context) -> int:
    """By its PriorityClass; the value of a class limited by quota counts only if all pods carry the class."""
    name = podgroup.spec.priority_class_name
    if name and context.is_limited(podgroup.metadata.namespace, name) and not all_carry(name, pods):
        return context.priorities.of_unproven(name)
    return context.priorities.of(name)


def _preempts(podgroup: PodGroup, pods: Sequence[Pod], context: Context) -> bool:
    """By its PriorityClass and the preemption policies of its pods."""
    by_class = context.priorities.preempts(podgroup.spec.priority_class_name)
    return by_class and all(pod.spec.preemption_policy != NEVER for pod in pods)


def _leaf_of(pod: Pod) -> str:
    return pod.metadata.labels.get(KAI_SUBGROUP_NAME) or DEFAULT_LEAF


def _stray(pod: Pod, podgroup: PodGroup) -> str:
    name, leaf = f"{pod.metadata.namespace}/{pod.metadata.name}", leaf_of(pod)
    if any(group.name == leaf for group in podgroup.spec.sub_groups):
        return f"pod {name} is in SubGroup {leaf} of PodGroup {podgroup.metadata.name}, which has sub-groups, not pods"
    if KAI_SUBGROUP_NAME not in pod.metadata.labels:
        return f"pod {name} has no label {KAI_SUBGROUP_NAME}, and PodGroup {podgroup.metadata.name} has SubGroups"
    return f"pod {name} is in SubGroup {leaf}, which PodGroup {podgroup.metadata.name} does not have"


def _tie(podgroup: PodGroup) -> tuple[Tie | None, list[str]]:
    """The base gang whose domain this one shares (G12)."""
    written = podgroup.metadata.annotations.get(TIED_TO)
    if written is None:
        return None, []
    base, _, level = written.partition(",")
    if not base or not level or "," in level:
        return None, [f"annotation {TIED_TO} is '{written}', expected <base gang>,<level key>"]
    return Tie(f"{podgroup.metadata.namespace}/{generated_names.kai_podgroup(base)}", level), []


def is_gathering(spec: PodGroupSpec, pods: Sequence[Pod]) -> bool:
    """Whether there are certainly too few pods to start, and none of them has started.

    False only means that the gang has to be parsed.
    """
    return len(pods) < _least_pods(spec) and not any(
        pod.spec.node_name or pod.status.phase == "Succeeded" for pod in pods
    )


def _least_pods(spec: PodGroupSpec) -> int:
    """The fewest pods that a gang of this shape can start with; 0: not known."""
    if not spec.sub_groups:
        return spec.min_member or 0
    if spec.min_sub_group is not None or any(each.min_sub_group is not None for each in spec.sub_groups):
        return 0
    return sum([each.min_member or 0 for each in spec.sub_groups])
