"""Problems of topologies: missing or shared node labels, levels without domains, hosts that are not distinguishable.

Each names its nodes and says what to do. The figures per level are those of a ClusterTopology's status (L6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from spinney.api.builtin.node import Node
from spinney.api.domains import HOST
from spinney.api.kinds.clustertopology import AnyTopology, Topology, TopologyLevel, known_as
from spinney.api.labels import HOSTNAME, REGION, ZONE
from spinney.core.expansion.backends.kai import Kai, topology_keys
from spinney.core.expansion.clustertopology import level_statuses
from spinney.core.expansion.objects import to_builtins
from spinney.core.placement.explain.reasons import enumerated, many
from spinney.core.view.tree import Json, Level, is_accelerator, natural

ERROR, WARNING, NOTE = "error", "warning", "note"
_ORDER = (ERROR, WARNING, NOTE)
SHARED = frozenset({HOSTNAME, ZONE, REGION})
"""Keys that nodes of all kinds carry: they do not show that a node is meant to be in a topology."""
_NAMED = 4
_MISFIT = 4
"""A part of a domain that is this many times smaller than another looks like nodes with a wrong label."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`code` is for programs. `nodes` are all of them, in order; `domains` the values or paths that it is about."""

    severity: str
    code: str
    topology: str
    level: str
    text: str
    hint: str
    nodes: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def to_json(self) -> Json:
        shown: Json = {"severity": self.severity, "code": self.code, "topology": self.topology, "level": self.level}
        shown |= {"text": self.text, "hint": self.hint, "nodes": list(self.nodes), "domains": list(self.domains)}
        return {key: value for key, value in shown.items() if value}


@dataclass(frozen=True, slots=True)
class Checked:
    """One topology with the figures of its levels as in its status; `nodes`: the nodes that carry all its keys."""

    name: str
    nodes: int
    levels: tuple[Json, ...]

    def to_json(self) -> Json:
        return {"topology": self.name, "nodes": self.nodes, "levels": list(self.levels)}


@dataclass(frozen=True, slots=True)
class Lint:
    topologies: tuple[Checked, ...]
    problems: tuple[Problem, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there are no errors or warnings; notes do not count."""
        return all(problem.severity == NOTE for problem in self.problems)

    def to_json(self) -> Json:
        return {
            "topologies": [one.to_json() for one in self.topologies],
            "problems": [problem.to_json() for problem in self.problems],
        }


def lint(
    nodes: Sequence[Node], cluster_topologies: Sequence[AnyTopology], topologies: Sequence[Topology] | None
) -> Lint:
    """`topologies` are the scheduler's own; None: they cannot be read, so that drift is not checked."""
    ordered = sorted(nodes, key=lambda node: natural(node.metadata.name))
    subjects = _subjects(cluster_topologies, topologies or ())
    problems = [problem for subject in subjects for problem in _TopologyCheck(subject, ordered).problems()]
    problems += _equal_topologies(subjects)
    listed = {name for problem in problems if problem.code == "missing-key" for name in problem.nodes}
    problems += _outside(subjects, [node for node in ordered if node.metadata.name not in listed])
    if topologies is not None:
        problems += _drift(cluster_topologies, topologies)
    problems.sort(key=lambda one: (_ORDER.index(one.severity), one.topology))
    checked = tuple(_checked(subject, ordered) for subject in subjects)
    return Lint(checked, tuple(problems))


@dataclass(frozen=True, slots=True)
class _Subject:
    name: str
    levels: tuple[Level, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(level.key for level in self.levels)

    def holds(self, labels: Mapping[str, str]) -> bool:
        return all(level.key in labels for level in self.levels)


def _subjects(cluster: Sequence[AnyTopology], own: Sequence[Topology]) -> list[_Subject]:
    """ClusterTopologies, and scheduler Topologies without a ClusterTopology of the same name."""
    found = {}
    for grove in cluster:
        short = {level.key: level.domain for level in grove.spec.levels}
        found[grove.metadata.name] = tuple(Level(key, short[key]) for key in topology_keys(grove))
    bound = {name for grove in cluster for name in known_as(grove)} - found.keys()
    for kai in own:
        if kai.metadata.name in bound:
            continue
        found.setdefault(kai.metadata.name, tuple(Level(level.node_label) for level in kai.spec.levels))
    return [_Subject(name, found[name]) for name in sorted(found)]


def _checked(subject: _Subject, nodes: Sequence[Node]) -> Checked:
    labels = [node.metadata.labels for node in nodes]
    levels = [TopologyLevel(level.name, level.key) for level in subject.levels]
    return Checked(subject.name, sum(map(subject.holds, labels)), tuple(level_statuses(levels, labels)))


class _TopologyCheck:
    """One topology over all nodes."""

    def __init__(self, subject: _Subject, nodes: Sequence[Node]) -> None:
        self._subject = subject
        self._nodes = nodes
        self._inside = [node for node in nodes if subject.holds(node.metadata.labels)]

    def problems(self) -> Iterator[Problem]:
        yield from self._uncarried()
        yield from self._incomplete()
        yield from self._empty_values()
        pairs = zip(self._subject.levels, self._subject.levels[1:], strict=False)
        torn = [problem for above, level in pairs for problem in self._torn(above, level)]
        yield from torn
        yield from self._single_hosts({name for one in torn if one.code == "not-nested" for name in one.nodes})
        yield from self._hosts()

    def _uncarried(self) -> Iterator[Problem]:
        """Levels that no node carries; if all are carried, nodes that carry all of them."""
        missing = [level for level in self._subject.levels if not self._carriers(level)]
        for level in missing:
            text = f"no node carries {level.key}, the key of level {level.name}"
            hint = f"label the nodes, or take the level out: nothing that asks for a {level.name} can be placed"
            yield self._problem(ERROR, "level-without-nodes", level.name, text, hint)
        if not missing and not self._inside:
            text = f"no node carries all of {enumerated(list(self._subject.keys))}"
            yield self._problem(ERROR, "no-nodes", "", text, "label the nodes of one kind of hardware with all keys")

    def _incomplete(self) -> Iterator[Problem]:
        """Nodes that are meant to be in the topology and miss a key."""
        own = [level for level in self._subject.levels if level.key not in SHARED]
        for level in self._subject.levels:
            if not self._carriers(level):
                continue
            meant = [one for one in self._nodes if any(each.key in one.metadata.labels for each in own)]
            names = _names(node for node in meant if level.key not in node.metadata.labels)
            if names:
                has = "misses" if len(names) == 1 else "miss"
                text = f"{_listed(names)} {has} {level.key}, the key of level {level.name}"
                hint = (
                    f"kubectl label node {names[0]} {level.key}=...; until then no constrained pod of a set runs there"
                )
                yield self._problem(WARNING, "missing-key", level.name, text, hint, names)

    def _empty_values(self) -> Iterator[Problem]:
        for level in self._subject.levels:
            names = _names(node for node in self._nodes if node.metadata.labels.get(level.key) == "")
            if names:
                text = f"{_listed(names)} {_verb(names, 'carries', 'carry')} {level.key} without a value"
                hint = f"an empty value is a {level.name} of its own: name it"
                yield self._problem(WARNING, "empty-value", level.name, text, hint, names)

    def _torn(self, above: Level, level: Level) -> Iterator[Problem]:
        """Values that lie in more than one domain of the level above: where most do, that is how names are given."""
        parents: dict[str, dict[str, list[str]]] = {}
        for node in self._nodes:
            labels = node.metadata.labels
            if above.key in labels and level.key in labels:
                by_parent = parents.setdefault(labels[level.key], {})
                by_parent.setdefault(labels[above.key], []).append(node.metadata.name)
        torn = {value: parts for value, parts in parents.items() if len(parts) > 1}
        is_usual = len(torn) * 2 > len(parents)
        misfits = {value: parts for value, parts in torn.items() if not is_usual or _has_misfits(parts)}
        equal = {value: parts for value, parts in torn.items() if value not in misfits}
        for value in sorted(misfits, key=natural):
            yield self._misfit(above, level, value, misfits[value])
        if equal:
            yield self._equal_names(above, level, equal)

    def _misfit(self, above: Level, level: Level, value: str, parts: Mapping[str, list[str]]) -> Problem:
        ordered = sorted(parts, key=natural)
        most = max(map(len, parts.values()))
        homes = [parent for parent in ordered if len(parts[parent]) == most]
        where = enumerated([f"{parent} ({many(len(parts[parent]), 'node')})" for parent in ordered])
        text = f"{level.name} {value} lies under {many(len(parts), above.name)}: {where}"
        if len(homes) == 1:
            misplaced = [name for parent in ordered if parent != homes[0] for name in parts[parent]]
            hint = f"{_listed(misplaced)} may have a wrong {above.key} or {level.key}: the others are in {homes[0]}"
        else:
            misplaced = [name for parent in ordered for name in parts[parent]]
            hint = f"some of {_listed(misplaced)} may have a wrong {above.key} or {level.key}"
        return self._problem(WARNING, "not-nested", level.name, text, hint, tuple(misplaced), (value,))

    def _equal_names(self, above: Level, level: Level, torn: Mapping[str, Mapping[str, list[str]]]) -> Problem:
        values = sorted(torn, key=natural)
        names = [name for value in values for part in torn[value].values() for name in part]
        first = values[0]
        under = _few(sorted(torn[first], key=natural))
        text = f"{many(len(values), level.name)} of equal name under two or more parents: {_few(values)}"
        text += f"; {first} lies under {above.name} {under}"
        hint = f"a domain is its path, so each is a {level.name} of its own; if that is not meant, correct "
        hint += f"{level.key}, else name them apart for people, such as {sorted(torn[first], key=natural)[0]}-{first}"
        nodes = tuple(sorted(names, key=natural))
        return self._problem(WARNING, "equal-names", level.name, text, hint, nodes, tuple(values))

    def _single_hosts(self, misplaced: Set[str]) -> Iterator[Problem]:
        """Domains above the host that hold one node: packing into them is packing onto the host.

        Of a topology with one node no level can hold more: that says nothing about its labels.
        """
        if len(self._inside) == 1:
            return
        for depth, level in enumerate(self._subject.levels, start=1):
            if level.key == HOSTNAME or level.domain == HOST:
                continue
            sizes: dict[tuple[str, ...], list[str]] = {}
            for node in self._inside:
                path = tuple(node.metadata.labels[key] for key in self._subject.keys[:depth])
                sizes.setdefault(path, []).append(node.metadata.name)
            alone = [path for path, names in sizes.items() if len(names) == 1 and names[0] not in misplaced]
            single = sorted(alone, key=_path_order)
            if not single:
                continue
            paths = tuple("/".join(path) for path in single)
            nodes = tuple(sizes[path][0] for path in single)
            if len(single) == len(sizes):
                text = f"every {level.name} has a single host: {_listed(nodes)}"
                hint = f"the level says no more than the host does: take it out, or correct {level.key}"
            else:
                of = f"{len(single)} of {many(len(sizes), level.name)}"
                has = "has" if len(single) == 1 else "have"
                text = f"{of} {has} a single host: {_few([f'{p} ({n})' for p, n in zip(paths, nodes, strict=True)])}"
                hint = (
                    f"correct {level.key} if a neighbour has the right one; else nothing larger than a host fits there"
                )
            yield self._problem(WARNING, "single-host", level.name, text, hint, nodes, paths)

    def _hosts(self) -> Iterator[Problem]:
        """The level of hosts: the usual key, and a value for each node."""
        for level in self._subject.levels:
            if level.domain == HOST and level.key != HOSTNAME:
                text = f"the key of level host is {level.key}"
                hint = f"use {HOSTNAME}, which kubelets set and every scheduler knows"
                yield self._problem(WARNING, "host-key", level.name, text, hint)
            if level.domain != HOST and level.key != HOSTNAME:
                continue
            counts = Counter(node.metadata.labels[level.key] for node in self._inside)
            for value in sorted((one for one, count in counts.items() if count > 1), key=natural):
                names = _names(node for node in self._inside if node.metadata.labels[level.key] == value)
                text = f"{_listed(names)} carry the same {level.key}: {value}"
                hint = "each node needs a value of its own: these count as one host"
                yield self._problem(ERROR, "host-not-unique", level.name, text, hint, names, (value,))

    def _carriers(self, level: Level) -> bool:
        return any(level.key in node.metadata.labels for node in self._nodes)

    def _problem(self, severity: str, code: str, level: str, text: str, hint: str, *named: tuple[str, ...]) -> Problem:
        return Problem(severity, code, self._subject.name, level, text, hint, *named)


def _equal_topologies(subjects: Sequence[_Subject]) -> Iterator[Problem]:
    """Topologies over the same keys are one topology under two names."""
    by_keys: dict[tuple[str, ...], list[str]] = {}
    for subject in subjects:
        by_keys.setdefault(subject.keys, []).append(subject.name)
    for keys, names in by_keys.items():
        if len(names) > 1:
            text = f"topologies {enumerated(names)} have the same levels: {enumerated(list(keys))}"
            hint = "one is enough; sets that name either would use the same domains"
            yield Problem(WARNING, "equal-topologies", names[0], "", text, hint, domains=tuple(names))


def _outside(subjects: Sequence[_Subject], nodes: Sequence[Node]) -> Iterator[Problem]:
    """Nodes that are in no topology and not reported for a missing key; without accelerators they are only a note."""
    if not subjects:
        hint = "`spinney topology discover` proposes one from the labels of nodes"
        yield Problem(ERROR, "no-topology", "", "", "there is no topology", hint)
        return
    outside = [node for node in nodes if not any(subject.holds(node.metadata.labels) for subject in subjects)]
    fast = [node for node in outside if any(map(is_accelerator, node.status.allocatable))]
    slow = [node for node in outside if not any(map(is_accelerator, node.status.allocatable))]
    for severity, found, what in ((WARNING, fast, "with accelerators "), (NOTE, slow, "")):
        names = _names(found)
        if names:
            verb = _verb(names, "is", "are")
            text = f"{many(len(names), 'node')} {what}{verb} outside every topology: {_listed(names)}"
            them = _verb(names, "it", "them")
            hint = f"label {them}, or define a topology for {them}: pods under a constraint never run there"
            yield Problem(severity, "outside", "", "", text, hint, names)


def _drift(cluster: Sequence[AnyTopology], own: Sequence[Topology]) -> Iterator[Problem]:
    """Where the scheduler has other levels than the ClusterTopology; in the words of its status."""
    stored: dict[str, Any] = {one.metadata.name: to_builtins(one) for one in own}
    backend = Kai(manages_topologies=False)
    for grove in sorted(cluster, key=lambda one: one.metadata.name):
        synced = backend.twin_of(grove, lambda resource, namespace, name: stored.get(name))
        if synced is not None and not synced.in_sync:
            hint = "the operator mends the one that it owns; any other is its owner's to correct or delete"
            yield Problem(WARNING, "drift", grove.metadata.name, "", synced.message, hint)


def _has_misfits(parts: Mapping[str, list[str]]) -> bool:
    sizes = sorted(map(len, parts.values()))
    return sizes[0] * _MISFIT <= sizes[-1] or (sizes[0] == 1 and sizes[-1] > 1)


def _names(nodes: Any) -> tuple[str, ...]:
    return tuple(node.metadata.name for node in nodes)


def _listed(names: Sequence[str]) -> str:
    what = "node" if len(names) == 1 else "nodes"
    return f"{what} {_few(names)}"


def _few(names: Sequence[str]) -> str:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return enumerated([*names[:_NAMED], *more])


def _verb(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


def _path_order(path: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(map(natural, path))
