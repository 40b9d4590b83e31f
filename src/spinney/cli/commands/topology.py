"""`spinney topology`: what a cluster's topologies are, and who uses them.

Never writes to the cluster: the right to read is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spinney.cli.options import (
    NO,
    UNREADABLE,
    CommandGroup,
    kubeconfig_option,
    output_option,
    print_structured,
    query_cluster,
    screen,
    stop,
)

if TYPE_CHECKING:
    from spinney.cli.topology_sources import TopologyInputs
    from spinney.core.view.tree import Tree, View

F = TypeVar("F", bound=Callable[..., Any])

_nodes = click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Nodes from a file instead of a cluster: v1 Nodes as YAML, or a description as for `spinney up --nodes`.",
)
_manifests = click.option(
    "-f",
    "--filename",
    "manifests",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="MANIFEST",
    help="Topologies from a file, directory or - instead of those of the cluster. May be given several times.",
)


def _sources(command: F) -> F:
    """Where the nodes and topologies come from."""
    return _nodes(_manifests(kubeconfig_option(command)))


@click.group(cls=CommandGroup)
def topology() -> None:
    """Show and check the topologies of a cluster; nothing is changed."""


@topology.command(
    epilog="""\b
Examples:
  spinney topology usage
  spinney topology usage --no-headers | grep ^gb200
  spinney topology usage -o json

\b
A set that names no topology is listed with `grove-topology (default)`. The last column says whether topology applies to
the set: not without a constraint, and not while its topology is missing or switched off.

\b
Exit status: 0, or 2 when the cluster cannot be read. Needed: to list podcliquesets.grove.io in all namespaces.
""",
)
@kubeconfig_option
@output_option
@click.option("--no-headers", is_flag=True, help="Only the rows of the table.")
def usage(kubeconfig: Path | None, output: str, no_headers: bool) -> None:
    """List which PodCliqueSets use which ClusterTopology."""
    from spinney.cli.render.topology_report import usage_table
    from spinney.cli.topology_sources import read_usage

    found = query_cluster("topology usage", kubeconfig, read_usage)
    if output == "table":
        click.echo(usage_table(found, headers=not no_headers), nl=False)
    else:
        print_structured([one.to_json() for one in found], output)


@topology.command(
    epilog="""\b
Examples:
  spinney topology show
  spinney topology show h100 --level rack
  spinney topology show --gang default/llm-0
  spinney topology show --nodes nodes.yaml -f topology.yaml
  spinney topology show -o json | jq '.[].tree.domains[] | {path, gangs}'

\b
Of the bar, full cells are used, dots are free, and crosses are on nodes that
are cordoned or not ready. A domain without the resource of the heading shows
what it has most of, named behind its figures. Nodes that lack a key of the topology are in none of
its domains and are listed below the tree.

\b
Exit status: 0; 1 when there is no such topology, level or gang; 2 when the
cluster or a file cannot be read. Needed: to list nodes, pods, clustertopologies,
clustertopologybindings and topologies.kai.scheduler.
""",
)
@click.argument("name", required=False, default="")
@click.option("--level", metavar="LEVEL", default="", help="Down to this level, by its domain or key, such as rack.")
@click.option("--gang", metavar="NAMESPACE/NAME", default="", help="Only where the pods of this PodGroup are.")
@click.option("--all", "is_all", is_flag=True, help="Every domain and host, one by one.")
@_sources
@output_option
def show(
    name: str,
    level: str,
    gang: str,
    is_all: bool,
    nodes_file: Path | None,
    manifests: tuple[Path, ...],
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Draw topologies as trees: what is used and free in each domain, and which gangs are there.

    Where there are many hosts they are folded, and runs of equal domains are summed up.
    """
    from spinney.cli.render.topology_tree import RowSelection, shown
    from spinney.core.view.topology_index import view_of
    from spinney.core.view.tree import gang_json, tree_json

    found = _found("topology show", nodes_file, manifests, kubeconfig, pods=True)
    view = view_of(found.nodes, found.pods, found.groups, found.topologies or (), found.cluster_topologies)
    _refuse_unreadable(found, view, name, gang)
    trees = _chosen(view, name, level, gang)
    if output != "table":
        about = {"gang": gang_json(view.gangs[gang])} if gang else {}
        print_structured([{**tree_json(view, tree), **about} for tree in trees], output)
        return
    here = screen()
    click.echo(shown(view, trees, RowSelection(level, is_all, gang), here), nl=False, color=here.color)


@topology.command(
    epilog="""\b
Examples:
  spinney topology lint
  spinney topology lint -f proposal.yaml         # over the nodes of the cluster
  spinney topology lint --nodes nodes.yaml -f topology.yaml
  spinney topology lint -o json | jq -r '.problems[] | select(.code=="missing-key").nodes[]'

\b
The table has the figures of a ClusterTopology's status. Found are:
  error    level-without-nodes, no-nodes, host-not-unique, no-topology
  warning  missing-key, empty-value, not-nested (a value under two parents, in
           one of them a few nodes only), equal-names (domains of one name under
           several parents), single-host, host-key, equal-topologies, outside
           (nodes with accelerators in no topology), drift (the scheduler has
           other levels)
  note     outside (nodes without accelerators)

\b
Exit status: 0 when nothing but notes was found, 1 when there are errors or
warnings, 2 when the cluster or a file cannot be read. Needed: to list nodes,
clustertopologies and clustertopologybindings; with topologies.kai.scheduler
drift is looked for, too.
""",
)
@_sources
@output_option
def lint(nodes_file: Path | None, manifests: tuple[Path, ...], kubeconfig: Path | None, output: str) -> None:
    """Find what is wrong with topologies and the labels of nodes, and say what to do."""
    from spinney.cli.render.topology_report import problems_shown
    from spinney.core.view.lint import lint as examine

    found = _found("topology lint", nodes_file, manifests, kubeconfig)
    report = examine(found.nodes, found.cluster_topologies, found.topologies)
    if output == "table":
        here = screen()
        click.echo(problems_shown(report, found.notes, here), nl=False, color=here.color)
    else:
        print_structured(report.to_json(), output)
    if not report.is_clean:
        raise SystemExit(NO)


@topology.command(
    epilog="""\b
Examples:
  spinney topology discover
  spinney topology discover > topology.yaml && spinney topology lint -f topology.yaml
  spinney topology discover --nodes nodes.yaml | spinney validate -f -
  spinney topology discover | kubectl apply -f -

\b
Known are the keys of Kubernetes (region, zone, hostname), those that documents
of Grove, KAI and Kueue use, of NVIDIA (gpu.clique, Topograph), AWS, Google
Cloud, Oracle Cloud, CoreWeave and Nebius, and any key whose last word is that of
a level (example.com/rack). A key becomes a level if its values lie in those of the
broader levels, or are names that repeat below them. Nodes that carry other keys
get a proposal of their own. Comments say what was left out and why.

\b
Exit status: 0 when there is a proposal, 1 when there is none, 2 when the cluster
or a file cannot be read. Needed: to list nodes.
""",
)
@_nodes
@kubeconfig_option
@click.option("--name", metavar="NAME", default="", help="Name of the topology; with several proposals, of the first.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def discover(nodes_file: Path | None, kubeconfig: Path | None, name: str, output: str) -> None:
    """Propose ClusterTopologies from the labels that nodes carry, as YAML to apply."""
    from kube_apimachinery.name_validation import dns_subdomain
    from spinney.cli.render.topology_report import proposals_shown
    from spinney.core.view.discovery import discover as examine

    if name and (wrong := dns_subdomain(name)):
        raise click.UsageError(f"--name {name}: {wrong[0]}")
    found = _found("topology discover", nodes_file, (), kubeconfig, topologies=False)
    report = examine(found.nodes, found.cluster_topologies, name)
    if output == "yaml":
        click.echo(proposals_shown(report, screen()), nl=False)
    else:
        print_structured(report.to_json(), output)
    if not report.proposals:
        count = f"{len(found.nodes)} {'node' if len(found.nodes) == 1 else 'nodes'}"
        stop("topology discover", f"there is nothing to propose for {count}", NO)


def _found(
    command: str,
    nodes_file: Path | None,
    manifests: tuple[Path, ...],
    kubeconfig: Path | None,
    **needs: bool,
) -> TopologyInputs:
    from spinney.cli.topology_sources import Needs, Sources, find
    from spinney.whatif.inputs.manifests import ManifestError
    from spinney.whatif.inputs.nodes import NodesError

    try:
        return find(command, Sources(kubeconfig, nodes_file, manifests), Needs(**needs))
    except (ManifestError, NodesError, OSError, UnicodeDecodeError) as error:
        stop(command, str(error), UNREADABLE)
    except RecursionError:
        stop(command, f"{nodes_file}: nested too deeply", UNREADABLE)


def _refuse_unreadable(found: TopologyInputs, view: View, name: str, gang: str) -> None:
    """What was asked for by name and can not be read ends the command."""
    for asked, is_there in ((name, view.tree(name) is not None), (gang, gang in view.gangs)):
        if asked in found.unreadable and not is_there:
            stop("topology show", found.unreadable[asked], UNREADABLE)


def _chosen(view: View, name: str, level: str, gang: str) -> list[Tree]:
    """The trees that were asked for; anything that is not there ends the command."""
    from spinney.core.suggestions import did_you_mean

    command = "topology show"
    known = ", ".join(tree.name for tree in view.trees)
    if not view.trees:
        stop(command, "there is no topology: `spinney topology discover` proposes one from the labels of nodes", NO)
    if name and view.tree(name) is None:
        stop(
            command,
            f"there is no topology {name}, found: {known}{did_you_mean(name, [tree.name for tree in view.trees])}",
            NO,
        )
    trees = [tree for tree in view.trees if name in ("", tree.name)]
    if gang:
        if gang not in view.gangs:
            stop(command, f"there is no gang {gang}: no PodGroup of that name, and no pod that names it", NO)
        wanted = view.gangs[gang].topology
        inside = [tree for tree in trees if gang in tree.root.gangs]
        trees = [tree for tree in inside if tree.name == wanted] or inside or trees
    if level:
        having = [tree for tree in trees if tree.depth(level) is not None]
        if not having:
            levels = sorted({each.name for tree in trees for each in tree.levels})
            stop(
                command, f"no topology has a level {level}, found: {', '.join(levels)}{did_you_mean(level, levels)}", NO
            )
        trees = having
    return trees
