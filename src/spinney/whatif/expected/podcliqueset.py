"""The gangs and pods that the operator would create for a PodCliqueSet and that do not exist yet.

Uses the operator's own functions; an existing set keeps its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from spinney.api import generated_names
from spinney.api.changes import Create, Json
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueScalingGroupConfig, PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import GATE_PODGANG_PENDING
from spinney.core.expansion import podgang
from spinney.core.expansion.components import resource_claims
from spinney.core.expansion.objects import PODCLIQUESETS, owner_reference
from spinney.core.expansion.podclique import desired_pod, desired_podclique
from spinney.core.expansion.podclique.desired_pod import PodInput, pod
from spinney.core.expansion.podcliqueset.set_layout import (
    Gang,
    Member,
    Revisions,
    gangs_of,
    groups_of,
    pod_count,
    revisions_of,
    without_empty_members,
)
from spinney.core.expansion.podcliqueset.topology_resolution import ResolvedTopology, resolve_topology
from spinney.core.expansion.settings import Settings
from spinney.core.topology_constraints import effective_topology
from spinney.whatif.expected.expected_pods import ExpectedPods, Registry


@dataclass(frozen=True, slots=True)
class ExistingSet:
    """The existing objects of a set: number of pods by clique name; replicas of its cliques and groups by name.

    `is_scheduled`: some of its pods have nodes.
    """

    pods: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    is_scheduled: bool = False


NOTHING = ExistingSet()


def expected_pods_of(
    body: Json,
    topology: Callable[[str], ClusterTopology | None],
    settings: Settings,
    registry: Registry,
    there: ExistingSet = NOTHING,
) -> list[ExpectedPods]:
    """Base gangs first, then scaled gangs, in scheduling order. Raises BadTemplate if there are too many pods."""
    found = _Set(registry.adopt(body), topology, settings, registry, there)
    expected_pods = [expected for gang in found.gangs() if (expected := found.expected(gang)).pods]
    registry.pods += sum(len(expected.pods) for expected in expected_pods)
    return sorted(expected_pods, key=lambda expected: expected.wave)


class _Set:
    """One set with its resolved topology."""

    def __init__(
        self,
        body: Json,
        topology: Callable[[str], ClusterTopology | None],
        settings: Settings,
        registry: Registry,
        there: ExistingSet,
    ) -> None:
        self._body = body
        self._set = msgspec.convert(body, PodCliqueSet, strict=False)
        registry.require(body, _pods_of(self._set))
        self._settings = settings
        self._registry = registry
        self._there = there
        name = effective_topology(self._set, settings.default_topology, there.is_scheduled)
        self._resolved_topology: ResolvedTopology = resolve_topology(self._set, topology(name), name, settings)
        self._revisions: Revisions = revisions_of(self._set)
        self._backend = settings.backend_of(self._set)

    def gangs(self) -> Iterator[Gang]:
        def live(name: str, config: PodCliqueScalingGroupConfig) -> int:
            return self._there.replicas.get(name, config.replicas)

        for replica in range(self._set.spec.replicas):
            yield from gangs_of(self._set, replica, groups_of(self._set, replica, live))

    def expected(self, gang: Gang) -> ExpectedPods:
        made = [(member, name, each) for member in gang.members for name, each in self._pods(member)]
        body = self._gang(gang)
        typed = msgspec.convert(body, PodGang, strict=False)
        written = [change.body for change in self._backend.sync_gang(typed, _nothing) if isinstance(change, Create)]
        base = generated_names.base_gang(self._set.metadata.name, gang.replica)
        return ExpectedPods(
            pods=tuple(each for _, _, each in made),
            podgroup=written[0] if written else None,
            owners=(self._body,),
            gang=_referring(body, [(member.name, name) for member, name, _ in made]),
            wave=int(gang.group is not None),
            after=generated_names.kai_podgroup(base) if gang.group is not None else "",
            claims=tuple(self._claims(gang)),
        )

    def _gang(self, gang: Gang) -> Json:
        spec = podgang.spec_of(
            self._set, without_empty_members(gang, self._there.replicas), self._resolved_topology, {}, {}
        )
        created = podgang.create(self._set, gang, spec, self._resolved_topology, self._backend)
        assert isinstance(created, Create)
        return self._registry.adopt(created.body)

    def _pods(self, member: Member) -> Iterator[tuple[str, Json]]:
        """The missing pods, with indices after the existing ones."""
        wanted = self._there.replicas.get(member.name, pod_count(member.template))
        have = self._there.pods.get(member.name, 0)
        if have >= wanted:
            return
        owner = owner_reference(PODCLIQUESETS, self._set.metadata)
        image, mnnvl = self._settings.init_image, self._settings.mnnvl_enabled
        body = self._registry.adopt(desired_podclique.clique(self._set, member, self._revisions, owner, mnnvl).body)
        clique = msgspec.convert(body, PodClique, strict=False)
        keys = self._resolved_topology.node_keys(self._set, member)
        parents = desired_pod.parents_of(self._set, member)
        pod_input = PodInput(self._set, clique, member, self._backend, keys, image, mnnvl, parents)
        for index in range(have, wanted):
            name = f"{generated_names.pod_prefix(member.name)}{index}"
            yield name, self._registry.adopt(_ungated(pod(pod_input, index, name).body))

    def _claims(self, gang: Gang) -> Iterator[str]:
        for member in gang.members:
            for index in range(pod_count(member.template)):
                for claim in resource_claims.claims_of(self._set, member, index):
                    yield claim["resourceClaimName"]


def _pods_of(podcliqueset: PodCliqueSet) -> int:
    """The number of pods of a set, computed before anything is created."""
    template = podcliqueset.spec.template
    times = {name: group.replicas for group in template.pod_clique_scaling_groups for name in group.clique_names}
    return podcliqueset.spec.replicas * sum(pod_count(one) * times.get(one.name, 1) for one in template.cliques)


def _nothing(*_: object) -> None:
    """A lookup that finds nothing."""


def _ungated(body: Json) -> Json:
    """The pod without the operator's scheduling gate; gates of the user stay."""
    spec = dict(body["spec"])
    spec["schedulingGates"] = [gate for gate in spec["schedulingGates"] if gate["name"] != GATE_PODGANG_PENDING]
    return {**body, "spec": spec}


def _referring(gang: Json, pods: list[tuple[str, str]]) -> Json:
    """The PodGang with references to its pods, by which the pod-grouper identifies them."""
    namespace = gang["metadata"]["namespace"]
    listed: dict[str, list[Json]] = {}
    for clique, name in pods:
        listed.setdefault(clique, []).append({"namespace": namespace, "name": name})
    groups = [{**group, "podReferences": listed.get(group["name"], [])} for group in gang["spec"]["podgroups"]]
    return {**gang, "spec": {**gang["spec"], "podgroups": groups}}
