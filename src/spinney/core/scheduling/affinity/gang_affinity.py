"""Resolves the pod affinity of a gang against the pods that run now, in both directions.

Pods of other gangs, of none, and running members restrict the nodes that a pod set may use. What pods that are placed
together ask about each other becomes terms of their pod sets, or preferences; what the engine cannot express becomes a
sentence (K8).
Decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from spinney.api.builtin.pod import Pod
from spinney.api.placement.problem import (
    AffinityPreference,
    Group,
    NodeTerm,
    PodSet,
    PreferredTerm,
    SpreadConstraint,
    Term,
    Topology,
)
from spinney.api.placement.problem import AffinityTerm as PodSetTerm
from spinney.core.inventory.inventory import Inventory
from spinney.core.scheduling.affinity.index import AffinityIndex, AffinityQuery
from spinney.core.scheduling.affinity.terms import NO_TERMS, AffinityTerm, AffinityTerms, SpreadTerm, WeightedTerm
from spinney.core.scheduling.gang.parsed_gang import ParsedGang

Key = tuple[str, str]
Part = Group | PodSet

MOST_TERMS = 16
MOST_DOMAINS = 64
"""Each domain of a preferred term is compared with the label of every node."""
NO_MATCHING_POD = "affinity.podAffinity can not be honoured now: no pod that it selects has a node"


@dataclass(frozen=True, slots=True)
class AffinityContext:
    """The surroundings of a gang. `pod`: finds a pod by namespace and name."""

    affinity_index: AffinityIndex
    inventory: Inventory
    topologies: Mapping[str, Topology]
    pod: Callable[[Key], Pod | None]

    def domains(self, nodes: Iterable[str], key: str) -> tuple[str, ...]:
        """The values of a label on these nodes, sorted."""
        slots = [slot for slot in map(self.inventory.find, nodes) if slot is not None]
        values = {self.inventory.node(slot).labels.get(key) for slot in slots}
        return tuple(sorted([value for value in values if value is not None]))


def with_affinity(reading: ParsedGang, around: AffinityContext) -> ParsedGang:
    """The gang as it is to be decided now."""
    if not reading.affinity_terms and not around.affinity_index.repel:
        return reading
    return _AffinityResolution(reading, around).read()


class _AffinityResolution:
    """Resolves one gang. `_changed`: the changed parts, by path."""

    def __init__(self, reading: ParsedGang, around: AffinityContext) -> None:
        self._reading = reading
        self._around = around
        self._changed: dict[str, Part] = {}
        self._parts = dict(_walk(reading.gang.root, "", None))
        self._pods = {
            path: [pod for pod in (around.pod(one.key) for one in waiting) if pod is not None]
            for path, waiting in reading.waiting.items()
        }

    def read(self) -> ParsedGang:
        for path in self._reading.waiting:
            affinity_terms = self._reading.affinity_terms.get(path, NO_TERMS)
            self._restrict(
                path, [*self._anti_affinity_terms(path, affinity_terms), *self._affinity_terms(path, affinity_terms)]
            )
            self._keep_apart(path, affinity_terms)
            for spread in affinity_terms.spread:
                self._spread(path, spread)
            self._check_number(path)
            self._prefer_domains(path, affinity_terms)
            self._prefer_company(path, affinity_terms)
        if not self._changed:
            return self._reading
        gang = self._reading.gang
        root = _rebuilt(gang.root, "", self._changed)
        assert isinstance(root, Group)
        return replace(self._reading, gang=msgspec.structs.replace(gang, root=root))

    # Running pods

    def _anti_affinity_terms(self, path: str, affinity_terms: AffinityTerms) -> Iterator[Term]:
        """Excludes domains of pods that these repel, or that repel these."""
        around, found = self._around, dict[str, set[str]]()
        for term in affinity_terms.apart:
            nodes = around.affinity_index.nodes(AffinityQuery((term.pod_selector,), term.token))
            found.setdefault(term.key, set()).update(around.domains(nodes, term.key))
        ports = self._pod_set(path).host_ports
        for pod in self._pods[path] if around.affinity_index.repel else ():
            for key, nodes in around.affinity_index.repelling(pod, ports):
                found.setdefault(key, set()).update(around.domains(nodes, key))
        for key, values in sorted(found.items()):
            if values:
                yield Term(key, "NotIn", tuple(sorted(values)))

    def _affinity_terms(self, path: str, affinity_terms: AffinityTerms) -> list[Term]:
        """Requires the domains of pods that these have affinity to; the first of their own kind may go anywhere.

        Where the gang brings such pods along, their domains will do as well.
        """
        if not affinity_terms.near:
            return []
        query = AffinityQuery(tuple([term.pod_selector for term in affinity_terms.near]), near=True)
        nodes = self._around.affinity_index.nodes(query)
        if not nodes and all(term.own for term in affinity_terms.near):
            for term in affinity_terms.near:
                self._colocate(path, term)
            return [Term(term.key, "Exists") for term in affinity_terms.near]
        self._around.affinity_index.want(query)
        others = self._company(path, affinity_terms)
        if others and not all(term.own for term in affinity_terms.near):
            for term in affinity_terms.near:
                self._set_near(path, PodSetTerm(term.key, others, self._around.domains(nodes, term.key)))
            return [Term(term.key, "Exists") for term in affinity_terms.near]
        if not nodes:
            self._set_unsupported(path, NO_MATCHING_POD)
            return []
        return [Term(term.key, "In", self._around.domains(nodes, term.key)) for term in affinity_terms.near]

    def _prefer_domains(self, path: str, affinity_terms: AffinityTerms) -> None:
        """Weighs domains by the running pods that preferred terms select, as preferred node affinity is weighed."""
        found = tuple([term for weighted in affinity_terms.preferred for term in self._weighed(weighted)])
        if found:
            pods = self._pod_set(path)
            wanted = msgspec.structs.replace(pods.filter, preferred=(*pods.filter.preferred, *found))
            self._changed[path] = msgspec.structs.replace(pods, filter=wanted)

    def _weighed(self, weighted: WeightedTerm) -> Iterator[PreferredTerm]:
        """One term for each number of selected pods that some domains hold; of too many domains those with most."""
        term = weighted.term
        nodes = self._around.affinity_index.nodes(AffinityQuery((term.pod_selector,), near=weighted.weight > 0))
        pods = Counter[str]()
        for node, count in nodes.items():
            for value in self._around.domains((node,), term.key):
                pods[value] += count
        by_count: dict[int, list[str]] = {}
        for value, count in sorted(pods.items(), key=lambda each: (-each[1], each[0]))[:MOST_DOMAINS]:
            by_count.setdefault(count, []).append(value)
        for count, values in by_count.items():
            yield PreferredTerm(weighted.weight * count, NodeTerm((Term(term.key, "In", tuple(values)),)))

    # Pods of the gang

    def _prefer_company(self, path: str, affinity_terms: AffinityTerms) -> None:
        """What the pods of a set prefer of pods that are placed with them."""
        found = tuple(self._preferences(path, affinity_terms))
        if found:
            self._changed[path] = msgspec.structs.replace(self._pod_set(path), affinity_preferences=found)

    def _preferences(self, path: str, affinity_terms: AffinityTerms) -> Iterator[AffinityPreference]:
        is_alone = len(self._reading.waiting[path]) == 1
        for weighted in affinity_terms.preferred:
            others = tuple([each for each in self._selected(weighted.term) if each != path or not is_alone])
            if others:
                kind: Literal["near", "apart"] = "near" if weighted.weight > 0 else "apart"
                yield AffinityPreference(abs(weighted.weight), kind, weighted.term.key, others)
        for spread in affinity_terms.preferred_spread:
            if self._selected(spread) == [path] and not is_alone:
                yield AffinityPreference(
                    0, "spread", spread.key, max_skew=spread.max_skew, min_domains=spread.min_domains
                )

    def _company(self, path: str, affinity_terms: AffinityTerms) -> tuple[str, ...]:
        """The other pod sets of which some pods meet all affinity terms of a pod set."""
        selected = [set(self._selected(term)) for term in affinity_terms.near]
        return tuple(sorted(set.intersection(*selected) - {path}))

    def _set_near(self, path: str, term: PodSetTerm) -> None:
        pods = self._pod_set(path)
        self._changed[path] = msgspec.structs.replace(pods, pod_affinity=(*pods.pod_affinity, term))

    def _keep_apart(self, path: str, affinity_terms: AffinityTerms) -> None:
        """Anti-affinity to other pod sets of the gang; those with the same token are kept apart like host ports."""
        terms = []
        for term in affinity_terms.apart:
            others = [
                other
                for other in self._selected(term)
                if other != path and not (term.token and term.token in self._pod_set(other).host_ports)
            ]
            if others:
                terms.append(PodSetTerm(term.key, tuple(others)))
        if terms:
            self._changed[path] = msgspec.structs.replace(self._pod_set(path), pod_anti_affinity=tuple(terms))

    def _check_number(self, path: str) -> None:
        """Every term costs time in every search, and a pod may have thousands."""
        pods = self._pod_set(path)
        found = len(pods.pod_anti_affinity) + len(pods.pod_affinity) + len(pods.spread)
        if found > MOST_TERMS:
            self._set_unsupported(
                path, f"{found} terms about pods of the same gang can not be honoured, at most {MOST_TERMS} are"
            )

    def _spread(self, path: str, term: SpreadTerm) -> None:
        """The engine counts the pods of one set: a constraint that counts others as well cannot be honoured."""
        query = AffinityQuery((term.pod_selector,), near=True)
        there = sum(self._around.affinity_index.nodes(query).values())
        running = sum(member.pods == path for member in self._reading.gang.running)
        reserved = sum(self._around.inventory.pod(pod.metadata.uid) is not None for pod in self._pods[path])
        if self._selected(term) != [path] or there > running + reserved:
            self._set_unsupported(
                path,
                f"topologySpreadConstraints[{term.index}] with whenUnsatisfiable DoNotSchedule can not be honoured: it "
                "counts pods that are not of this part of the gang",
            )
            return
        pods = self._pod_set(path)
        one = SpreadConstraint(term.key, term.max_skew, term.min_domains)
        self._changed[path] = msgspec.structs.replace(pods, spread=(*pods.spread, one))

    def _selected(self, term: AffinityTerm | SpreadTerm) -> list[str]:
        """The pod sets of which a term selects pods that are to be placed."""
        selects = term.pod_selector.selects
        return sorted(
            path
            for path, pods in self._pods.items()
            if any(selects(pod.metadata.namespace, pod.metadata.labels) for pod in pods)
        )

    def _colocate(self, path: str, term: AffinityTerm) -> None:
        """No matching pod runs yet: pods that are placed together are kept together."""
        paths = sorted(each for each in self._reading.waiting if term in self._terms_of(each).near)
        pods = sum(len(self._reading.waiting[each]) for each in paths)
        scope = path if len(paths) == 1 else _above(paths)
        if pods == 1 or self._is_colocated(scope, term.key):
            return
        topology = self._topology_for(scope, paths, term.key)
        if topology is None:
            self._set_near(path, PodSetTerm(term.key, tuple(sorted({path, *paths}))))
            return
        part = self._part(scope)
        finer = part.preferred in topology.levels[topology.levels.index(term.key) :]
        self._changed[scope] = msgspec.structs.replace(
            part, topology=topology.name, required=term.key, preferred=part.preferred if finer else None
        )

    def _is_colocated(self, scope: str, key: str) -> bool:
        """Whether a constraint here or above already requires all of them in one domain."""
        above = [scope[:end] for end in range(len(scope)) if scope[end] == "/"]
        for path in ("", *above, scope):
            topology = self._around.topologies.get(self._parts[path][1] or "")
            levels = topology.levels if topology is not None else ()
            required = self._part(path).required
            if key in levels and required in levels[levels.index(key) :]:
                return True
        return False

    def _topology_for(self, scope: str, paths: list[str], key: str) -> Topology | None:
        """A topology with that level, if it can be required of everything below the scope."""
        leaves = [path for path, (part, _) in self._parts.items() if isinstance(part, PodSet) and _is_in(path, scope)]
        if sorted(leaves) != paths:
            return None
        own = self._parts[scope][1]
        if own is not None:
            found = self._around.topologies.get(own)
            return found if found is not None and key in found.levels else None
        inside = [part for path, (part, _) in self._parts.items() if _is_in(path, scope)]
        if any(part.topology is not None for part in inside):
            return None
        known = [each for _, each in sorted(self._around.topologies.items()) if key in each.levels]
        return known[0] if known else None

    # Parts

    def _terms_of(self, path: str) -> AffinityTerms:
        return self._reading.affinity_terms.get(path, NO_TERMS)

    def _part(self, path: str) -> Part:
        return self._changed.get(path) or self._parts[path][0]

    def _pod_set(self, path: str) -> PodSet:
        part = self._part(path)
        assert isinstance(part, PodSet)
        return part

    def _restrict(self, path: str, terms: list[Term]) -> None:
        if terms:
            pods = self._pod_set(path)
            wanted = msgspec.structs.replace(pods.filter, company=tuple(terms))
            self._changed[path] = msgspec.structs.replace(pods, filter=wanted)

    def _set_unsupported(self, path: str, problem: str) -> None:
        pods = self._pod_set(path)
        if not pods.unsupported:
            self._changed[path] = msgspec.structs.replace(pods, unsupported=problem)


def _walk(part: Part, path: str, inherited: str | None) -> Iterator[tuple[str, tuple[Part, str | None]]]:
    """All parts with their effective topology, by path."""
    topology = part.topology if part.topology is not None else inherited
    yield path, (part, topology)
    if isinstance(part, Group):
        kids: tuple[Part, ...] = (*part.groups, *part.pods)
        for kid in kids:
            yield from _walk(kid, f"{path}/{kid.name}" if path else kid.name, topology)


def _rebuilt(part: Part, path: str, changed: Mapping[str, Part]) -> Part:
    part = changed.get(path, part)
    if isinstance(part, PodSet):
        return part
    prefix = f"{path}/" if path else ""
    groups = [_rebuilt(kid, prefix + kid.name, changed) for kid in part.groups]
    pods = [_rebuilt(kid, prefix + kid.name, changed) for kid in part.pods]
    return msgspec.structs.replace(
        part,
        groups=tuple([kid for kid in groups if isinstance(kid, Group)]),
        pods=tuple([kid for kid in pods if isinstance(kid, PodSet)]),
    )


def _above(paths: list[str]) -> str:
    """The deepest part that contains all of them."""
    shared = []
    for names in zip(*[path.split("/")[:-1] for path in paths], strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return "/".join(shared)


def _is_in(path: str, scope: str) -> bool:
    return not scope or path == scope or path.startswith(f"{scope}/")
