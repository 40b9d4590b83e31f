"""A PodCliqueSet as the gangs and pods that its operator would make: those it does not have yet.

Asks the operator's own functions; a set that exists keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from spinney.api import naming
from spinney.api.changes import Create, Json
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueScalingGroupConfig, PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.labels import GATE_PODGANG_PENDING
from spinney.core.expansion import cliques, podgang, sharing, startup
from spinney.core.expansion.objects import owner_reference
from spinney.core.expansion.pods import Recipe, pod
from spinney.core.expansion.resources import PODCLIQUESETS
from spinney.core.expansion.revision import Revisions, revisions_of
from spinney.core.expansion.settings import Settings
from spinney.core.expansion.shape import Gang, Member, awake, gangs_of, groups_of, pod_count
from spinney.core.expansion.translation import Translation, effective_name, translate
from spinney.core.foresight.brood import Brood, Registry


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is of a set: pods by the name of their clique; replicas of its cliques and groups by name.

    `is_scheduled`: some of its pods have nodes.
    """

    pods: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    is_scheduled: bool = False


NOTHING = Standing()


def broods_of(
    body: Json,
    topology: Callable[[str], ClusterTopology | None],
    settings: Settings,
    registry: Registry,
    there: Standing = NOTHING,
) -> list[Brood]:
    """Base gangs first, then the scaled ones, as they get their nodes. Raises BadTemplate where there are too many."""
    found = _Set(registry.adopt(body), topology, settings, registry, there)
    broods = [brood for gang in found.gangs() if (brood := found.brood(gang)).pods]
    registry.pods += sum(len(brood.pods) for brood in broods)
    return sorted(broods, key=lambda brood: brood.wave)


class _Set:
    """One set and how its constraints are to be read."""

    def __init__(
        self,
        body: Json,
        topology: Callable[[str], ClusterTopology | None],
        settings: Settings,
        registry: Registry,
        there: Standing,
    ) -> None:
        self._body = body
        self._set = msgspec.convert(body, PodCliqueSet, strict=False)
        registry.require(body, _pods_of(self._set))
        self._settings = settings
        self._registry = registry
        self._there = there
        name = effective_name(self._set, settings, there.is_scheduled)
        self._translation: Translation = translate(self._set, topology(name), name, settings)
        self._revisions: Revisions = revisions_of(self._set)
        self._backend = settings.backend_of(self._set)

    def gangs(self) -> Iterator[Gang]:
        def live(name: str, config: PodCliqueScalingGroupConfig) -> int:
            return self._there.replicas.get(name, config.replicas)

        for replica in range(self._set.spec.replicas):
            yield from gangs_of(self._set, replica, groups_of(self._set, replica, live))

    def brood(self, gang: Gang) -> Brood:
        made = [(member, name, each) for member in gang.members for name, each in self._pods(member)]
        body = self._gang(gang)
        typed = msgspec.convert(body, PodGang, strict=False)
        written = [change.body for change in self._backend.sync_gang(typed, _nothing) if isinstance(change, Create)]
        base = naming.base_gang(self._set.metadata.name, gang.replica)
        return Brood(
            pods=tuple(each for _, _, each in made),
            podgroup=written[0] if written else None,
            owners=(self._body,),
            gang=_referring(body, [(member.name, name) for member, name, _ in made]),
            wave=int(gang.group is not None),
            after=naming.kai_podgroup(base) if gang.group is not None else "",
            claims=tuple(self._claims(gang)),
        )

    def _gang(self, gang: Gang) -> Json:
        spec = podgang.spec_of(self._set, awake(gang, self._there.replicas), self._translation, {}, {})
        created = podgang.create(self._set, gang, spec, self._translation, self._backend)
        assert isinstance(created, Create)
        return self._registry.adopt(created.body)

    def _pods(self, member: Member) -> Iterator[tuple[str, Json]]:
        """Those that are missing, after those that are there."""
        wanted = self._there.replicas.get(member.name, pod_count(member.template))
        have = self._there.pods.get(member.name, 0)
        if have >= wanted:
            return
        owner = owner_reference(PODCLIQUESETS, self._set.metadata)
        body = self._registry.adopt(cliques.clique(self._set, member, self._revisions, owner).body)
        clique = msgspec.convert(body, PodClique, strict=False)
        keys = self._translation.node_keys(self._set, member)
        image, mnnvl = self._settings.init_image, self._settings.mnnvl_enabled
        parents = startup.parents_of(self._set, member)
        recipe = Recipe(self._set, clique, member, self._backend, keys, image, mnnvl, parents)
        for index in range(have, wanted):
            name = f"{naming.pod_prefix(member.name)}{index}"
            yield name, self._registry.adopt(_ungated(pod(recipe, index, name).body))

    def _claims(self, gang: Gang) -> Iterator[str]:
        for member in gang.members:
            for index in range(pod_count(member.template)):
                for claim in sharing.claims_of(self._set, member, index):
                    yield claim["resourceClaimName"]


def _pods_of(podcliqueset: PodCliqueSet) -> int:
    """Counted before anything is made."""
    template = podcliqueset.spec.template
    times = {name: group.replicas for group in template.pod_clique_scaling_groups for name in group.clique_names}
    return podcliqueset.spec.replicas * sum(pod_count(one) * times.get(one.name, 1) for one in template.cliques)


def _nothing(*_: object) -> None:
    """No server has anything."""


def _ungated(body: Json) -> Json:
    """Without the gate that its operator takes away; those of the user stay."""
    spec = dict(body["spec"])
    spec["schedulingGates"] = [gate for gate in spec["schedulingGates"] if gate["name"] != GATE_PODGANG_PENDING]
    return {**body, "spec": spec}


def _referring(gang: Json, pods: list[tuple[str, str]]) -> Json:
    """The gang with references to its pods, which the pod-grouper knows them by."""
    namespace = gang["metadata"]["namespace"]
    listed: dict[str, list[Json]] = {}
    for clique, name in pods:
        listed.setdefault(clique, []).append({"namespace": namespace, "name": name})
    groups = [{**group, "podReferences": listed.get(group["name"], [])} for group in gang["spec"]["podgroups"]]
    return {**gang, "spec": {**gang["spec"], "podgroups": groups}}
