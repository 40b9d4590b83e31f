"""The cluster as the pages know it: changes are noted as they come and folded only when somebody looks.

Never decides anything, never writes. Who is told of a change does next to nothing: the work waits for a reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.kinds.clustertopology import ClusterTopologyBinding, by_known_name, find_levels, known_as
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import KAI_NODE_POOL, POD_GROUP_NAME
from spinney.core.scheduling.cluster import Cluster
from spinney.core.view.best_score import with_best_score
from spinney.core.view.explanation import GangExplanation, Levels, explain_gang
from spinney.core.view.gang_list import GangRow, row_of
from spinney.core.view.mistakes import by_workload, explain_mistake, is_mistaken, mistake_row
from spinney.core.view.node_state import node_trouble
from spinney.core.view.topology_index import TopologyIndex
from spinney.core.view.tree import View
from spinney.serve.dashboard.data_sources import Change, Key, Views

T = TypeVar("T")

_log = structlog.get_logger(__name__)

_PIECE = 200
"""So many objects are folded before others may run."""


class Model:
    """`refresh` folds what is new; then everything else can be read. `noted` grows with every change, `version` with
    whatever can be seen, `structure` when nodes or topologies are others than before.
    """

    def __init__(self, views: Views) -> None:
        self.views = views
        self.cluster = Cluster()
        self.noted = 0
        self.version = 0
        self.structure = 0
        self.changed_event = asyncio.Event()
        self._forest = TopologyIndex()
        self._labels: dict[str, _Seen] = {}
        self._rows: dict[Key, GangRow] = {}
        self._members: dict[Key, dict[Key, None]] = {}
        self._groups_of: dict[Key, Key] = {}
        self._pods: dict[Key, Pod | None] = {}  # changed since the last look, as they were then
        self._nodes: dict[str, None] = {}
        self._gangs: dict[Key, None] = {}
        self._mistaken: dict[Key, None] = {}  # pods that a mistake of their workload keeps out of any gang
        self._topologies: dict[str, None] = {}
        self._moved = False
        self._lock = asyncio.Lock()
        views.nodes.subscribe(self._node)
        views.pods.subscribe(self._pod)
        views.groups.subscribe(self._group)
        views.topologies.subscribe(self._topology)
        views.cluster_topologies.subscribe(self._topology)
        views.topology_bindings.subscribe(self._topology_binding)
        views.sets.subscribe(self._move)
        views.queues.subscribe(self._move)

    # Noting

    def _node(self, change: Change[Node]) -> None:
        self._nodes[change.key[1]] = None
        self._stir()

    def _pod(self, change: Change[Pod]) -> None:
        self._pods.setdefault(change.key, change.old)
        self._stir()

    def _group(self, change: Change[PodGroup]) -> None:
        self._gangs[change.key] = None
        self._stir()

    def _topology(self, change: Change[Any]) -> None:
        self._topologies[change.key[1]] = None
        self._stir()

    def _topology_binding(self, change: Change[ClusterTopologyBinding]) -> None:
        seen = [each for each in (change.old, change.new) if each is not None]
        self._topologies |= {name: None for each in seen for name in sorted(known_as(each))}
        self._stir()

    def _move(self, change: Change[Any]) -> None:
        self._moved = True
        self._stir()

    def _stir(self) -> None:
        self.noted += 1
        self.changed_event.set()

    # Folding

    async def refresh(self) -> bool:
        """Everything that has been seen is in; whether anything that can be shown is new."""
        async with self._lock:
            self.changed_event.clear()
            before = self.version
            if self._topologies:
                self._fold_topologies()
            if self._nodes:
                await self._fold_nodes()
            self.cluster.settle()
            if self._pods:
                await self._fold_pods()
            if self._gangs:
                await self._fold_gangs()
            if self._moved:
                self._moved = False
                self.version += 1
            return self.version != before

    def _fold_topologies(self) -> None:
        names, self._topologies = self._topologies, {}
        for name in names:
            self._one(("", name), "topology", partial(self._fold_topology, name))
        self._restructured()
        self._restart_all()

    def _fold_topology(self, name: str) -> None:
        kai = self.views.topologies.get(("", name))
        grove = find_levels(name, self.views.topology_bindings, self.views.cluster_topologies.get(("", name)))
        self.cluster.put_kai_topology(name, kai)
        self.cluster.put_cluster_topology(name, grove)
        self._forest.put_topology(name, kai)
        self._forest.put_cluster_topology(name, grove)

    def _one(self, key: Key, kind: str, fold: Callable[[], None]) -> None:
        """An object that can not be shown hides no other: it is logged, and not shown."""
        try:
            fold()
        except Exception as error:
            _log.error("an object can not be shown", kind=kind, object="/".join(filter(None, key)), exc_info=error)

    async def _fold_nodes(self) -> None:
        names, self._nodes = self._nodes, {}
        changed: set[str] = set()
        moved: set[str] = set()
        async for name in _in_pieces(names):
            self._one(("", name), "node", partial(self._fold_node, name, changed, moved))
        if changed:
            self._restructured()
        if moved:
            self._restart_all()

    def _fold_node(self, name: str, changed: set[str], moved: set[str]) -> None:
        node, improved = self.views.nodes.get(("", name)), self.cluster.improved
        self.cluster.put_node(name, _of_no_pool(node))
        if node is None or self.cluster.improved != improved:  # else it was no more than a heartbeat
            changed.add(name)
            if self._labels.get(name) != _note(self._labels, name, node) and self._has_pods(name):
                moved.add(name)
            self._forest.put_node(name, node)

    def _has_pods(self, node: str) -> bool:
        return bool(self.cluster.inventory.pods_on(node))

    def _restructured(self) -> None:
        self.structure += 1
        self.version += 1

    def _restart_all(self) -> None:
        """Domains of gangs may be others than before."""
        self._gangs.update((key, None) for key in self._rows)

    async def _fold_pods(self) -> None:
        changed, self._pods = self._pods, {}
        async for key in _in_pieces(changed):
            self._one(key, "pod", partial(self._fold_pod, key, changed[key]))
        self.version += 1

    def _fold_pod(self, key: Key, old: Pod | None) -> None:
        new = self.views.pods.get(key)
        self._enlist(key, new)
        if new is not None and is_mistaken(new):
            self._mistaken[key] = None
        else:
            self._mistaken.pop(key, None)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self.cluster.put_pod(old, None)
            self._forest.put_pod(old, None)
        if new is not None:
            self.cluster.put_pod(None, new)
            self._forest.put_pod(old, new)

    def _enlist(self, key: Key, pod: Pod | None) -> None:
        """A pod is a member of the gang it names, and of no other."""
        name = pod.metadata.annotations.get(POD_GROUP_NAME, "") if pod is not None else ""
        before, after = self._groups_of.get(key), (key[0], name) if name else None
        if before is not None:
            self._gangs[before] = None
        if before == after:
            return
        if before is not None:
            del self._groups_of[key]
            members = self._members[before]
            del members[key]
            if not members:
                del self._members[before]
        if after is not None:
            self._groups_of[key] = after
            self._members.setdefault(after, {})[key] = None
            self._gangs[after] = None

    async def _fold_gangs(self) -> None:
        keys, self._gangs = self._gangs, {}
        levels = self.levels()
        async for key in _in_pieces(keys):
            self._rows.pop(key, None)
            self._one(key, "PodGroup", partial(self._fold_gang, key, levels))
        self.version += 1

    def _fold_gang(self, key: Key, levels: dict[str, Levels]) -> None:
        explained = self.explained(key, levels)
        group = self.views.groups.get(key)
        if explained is not None and group is not None:
            self._rows[key] = row_of(group, explained, self.pods_of(key))

    # Reading

    def trees(self) -> View:
        """What has not changed since the last view is the same value in this one."""
        return self._forest.view()

    def rows(self) -> Sequence[GangRow]:
        """One for each gang, and for each workload that a mistake keeps from being one, in the order of their names."""
        found = {key: mistake_row(pods) for key, pods in self._kept_out().items()} | self._rows
        return [found[key] for key in sorted(found)]

    def _kept_out(self) -> dict[Key, list[Pod]]:
        return by_workload(pod for key in self._mistaken if (pod := self.views.pods.get(key)) is not None)

    def explained(self, key: Key, levels: dict[str, Levels] | None = None) -> GangExplanation | None:
        """`levels`: known already, for a list of gangs, which does without the best score."""
        group = self.views.groups.get(key)
        if group is None:
            kept_out = self._kept_out().get(key)
            return explain_mistake(kept_out) if kept_out else None
        pods = self.pods_of(key)
        names = {pod.spec.node_name for pod in pods}
        nodes = {name: node for name in names if (node := self.views.nodes.get(("", name))) is not None}
        explained = explain_gang(group, pods, nodes, self.levels() if levels is None else levels)
        return explained if levels is not None else with_best_score(explained, group, pods, self.cluster)

    def pods_of(self, key: Key) -> list[Pod]:
        """Those of a gang, or of a workload that is none by mistake."""
        if key not in self._members:
            return self._kept_out().get(key, [])
        found = (self.views.pods.get(member) for member in sorted(self._members.get(key, ())))
        return [pod for pod in found if pod is not None]

    def levels(self) -> dict[str, Levels]:
        """The keys of every topology, and the short names that they have."""
        short: dict[str, dict[str, str]] = {
            name: {level.key: level.domain for level in each.spec.levels}
            for name, each in by_known_name(self.views.counting).items()
        }
        return {
            name: Levels(topology.levels, short.get(name, {}))
            for name, topology in sorted(self.cluster.topologies.items())
        }


_Seen = tuple[dict[str, str], str]
"""Labels and trouble of a node: what pages of gangs say of it."""


def _note(labels: dict[str, _Seen], name: str, node: Node | None) -> _Seen | None:
    """What is said of a node from now on; None: it is gone."""
    if node is None:
        labels.pop(name, None)
        return None
    labels[name] = (node.metadata.labels, node_trouble(node))
    return labels[name]


def _of_no_pool(node: Node | None) -> Node | None:
    """Nodes of every pool are shown together."""
    if node is None or KAI_NODE_POOL not in node.metadata.labels:
        return node
    labels = {key: value for key, value in node.metadata.labels.items() if key != KAI_NODE_POOL}
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))


async def _in_pieces(keys: Iterable[T]) -> AsyncIterator[T]:
    for number, key in enumerate(keys, 1):
        yield key
        if number % _PIECE == 0:
            await asyncio.sleep(0)
