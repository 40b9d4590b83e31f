"""What the topology commands look at: a cluster, files that describe one, or topologies from files over its nodes.

Only reads. What may not be seen and can be done without is named in the notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.documents import INVENTORY
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology, ClusterTopologyBinding, Topology, counting
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgroup import PodGroup
from spinney.cli.options import query_cluster
from spinney.core.view.topology_usage import TopologyUse, topology_uses
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ConfigError, Forbidden, NotFound
from spinney.drive.client.informers.unreadable import Complaint
from spinney.drive.client.paths import ResourcePath
from spinney.drive.scheduler.caches import CLUSTER_TOPOLOGIES, NODES, PODGROUPS, PODS, TOPOLOGIES, TOPOLOGY_BINDINGS
from spinney.whatif.inputs.manifests import Manifest, ManifestError, read_manifests, standard_input
from spinney.whatif.inputs.nodes import load_nodes, parse_nodes

T = TypeVar("T")
_SETS = ResourcePath(PodCliqueSet.GROUP, PodCliqueSet.VERSION, PodCliqueSet.PLURAL)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look; nothing given: everything is read from the cluster."""

    kubeconfig: Path | None = None
    nodes_file: Path | None = None
    manifests: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologyInputs:
    """`topologies` are the scheduler's own; None: they cannot be seen, so that nothing can be said about them.

    `unreadable`: what is wrong with topologies and PodGroups that are left out, by name, or by namespace and name.
    """

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    groups: tuple[PodGroup, ...] = ()
    topologies: tuple[Topology, ...] | None = None
    cluster_topologies: tuple[AnyTopology, ...] = ()
    notes: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a command cannot do without, besides nodes."""

    pods: bool = False
    topologies: bool = True


def find(command: str, sources: Sources, needs: Needs) -> TopologyInputs:
    """Raises ManifestError and NodesError for files; ends the command where a cluster cannot be read."""
    if sources.nodes_file is not None and sources.kubeconfig is not None:
        raise click.UsageError("--nodes and --kubeconfig exclude each other: nodes are described, or a cluster's")
    given = read_manifests(sources.manifests)
    nodes = [*_described(sources.nodes_file), *(one.content for one in given if one.kind == "Node")]
    written = TopologyInputs(
        nodes=tuple(_convert(one, Node, f"Node {one['metadata']['name']}") for one in nodes),
        pods=_of(given, "v1", "Pod", Pod),
        groups=_of(given, f"{PodGroup.GROUP}/", PodGroup.KIND, PodGroup),
        topologies=_of(given, f"{Topology.GROUP}/", Topology.KIND, Topology) or None,
        cluster_topologies=counting(
            _of(given, f"{ClusterTopology.GROUP}/", ClusterTopology.KIND, ClusterTopology),
            _of(given, f"{ClusterTopology.GROUP}/", ClusterTopologyBinding.KIND, ClusterTopologyBinding),
        ),
    )
    if nodes:
        return written
    if sources.manifests and not (written.topologies or written.cluster_topologies):
        where = ", ".join(map(str, sources.manifests))
        raise ManifestError(f"{where}: found no ClusterTopology, Topology or Node")
    return query_cluster(command, sources.kubeconfig, lambda client: read_cluster(client, written, needs))


async def read_cluster(client: ApiClient, written: TopologyInputs, needs: Needs) -> TopologyInputs:
    """Topologies that were given count instead of those of the cluster."""
    met: list[Complaint] = []
    client.unreadable.listen(met.append)
    found = await _read(client, written, needs)
    unreadable = {"/".join(filter(None, one.thing.key)): str(one) for one in met if one.resource not in (NODES, PODS)}
    return replace(found, unreadable=unreadable)


async def read_usage(client: ApiClient) -> list[TopologyUse]:
    try:
        listing = await client.list(Selection(_SETS))
    except NotFound:
        name = f"{PodCliqueSet.PLURAL}.{PodCliqueSet.GROUP}"
        raise ConfigError(f"the cluster does not serve {name}: apply `spinney manifests crds` first") from None
    return topology_uses(listing.items)


async def _read(client: ApiClient, written: TopologyInputs, needs: Needs) -> TopologyInputs:
    nodes = (await client.list(Selection(NODES), Node)).items
    pods: Sequence[Pod] = (await client.list(Selection(PODS), Pod)).items if needs.pods else ()
    groups = await _seen(client, PODGROUPS, PodGroup) if needs.pods else ()
    found = TopologyInputs(nodes=tuple(nodes), pods=tuple(pods), groups=groups or ())
    if written.topologies or written.cluster_topologies:
        given = (written.topologies, written.cluster_topologies)
        return TopologyInputs(found.nodes, found.pods, found.groups, *given)
    own = await _seen(client, TOPOLOGIES, Topology)
    notes = ("topologies.kai.scheduler may not be read: drift of the scheduler is not looked for",)
    read = _served if needs.topologies else _seen
    cluster = await read(client, CLUSTER_TOPOLOGIES, ClusterTopology)
    bindings = await read(client, TOPOLOGY_BINDINGS, ClusterTopologyBinding)
    count = counting(cluster or (), bindings or ())
    return TopologyInputs(found.nodes, found.pods, found.groups, own, count, notes if own is None else ())


async def _seen(client: ApiClient, path: ResourcePath, kind: type[T]) -> tuple[T, ...] | None:
    """None: not for us."""
    try:
        return await _served(client, path, kind)
    except Forbidden:
        return None


async def _served(client: ApiClient, path: ResourcePath, kind: type[T]) -> tuple[T, ...]:
    """None of a kind that the server does not know."""
    try:
        return tuple((await client.list(Selection(path), kind)).items)
    except NotFound:
        return ()


def _described(path: Path | None) -> list[dict[str, Any]]:
    if path is None:
        return []
    return parse_nodes(standard_input(INVENTORY), "standard input") if str(path) == "-" else load_nodes(path)


def _of(given: Iterable[Manifest], version: str, kind: str, shape: type[T]) -> tuple[T, ...]:
    chosen = [one for one in given if one.kind == kind and str(one.content["apiVersion"]).startswith(version)]
    return tuple(_convert(one.content, shape, str(one)) for one in chosen)


def _convert(content: dict[str, Any], shape: type[T], where: str) -> T:
    try:
        return msgspec.convert(content, shape)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: {error}") from error
