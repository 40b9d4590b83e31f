"""`spinney explain`: why a workload waits, or why it is where it is.

Tells what the scheduler has told, from the same annotations, conditions and nodes. Never writes to the cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from spinney.cli.options import (
    NO,
    kubeconfig_option,
    namespace_of_context,
    output_option,
    print_structured,
    query_cluster,
    screen,
    stop,
)

if TYPE_CHECKING:
    from spinney.core.view.explanation import WorkloadExplanation


@click.command(
    epilog="""\b
Examples:
  spinney explain default/llm
  spinney explain default/llm-0-decode-x7k2p     # a pod: the explanation of its gang
  spinney explain job/train -n research
  spinney explain default/llm -o json | jq '.gangs[] | select(.waits)'

\b
Exit status: 0 when there was something to explain, 1 when there is no such
object or it has no gang yet, 2 when the cluster or that object cannot be read.
Needed: to list pods and podgroups.scheduling.run.ai in the namespace; with the
right to read nodes and topologies it also says in which domains pods run, and
with that to list queues what the queues of gangs that wait hold and should have.
""",
)
@click.argument("workload", metavar="NAMESPACE/NAME|[KIND/]NAME")
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    default="",
    help="Of [KIND/]NAME. Default: that of the kubeconfig's context.",
)
@click.option(
    "--kind", metavar="KIND", default="", help="Kind of the object, where several have that name. Default: any."
)
@kubeconfig_option
@output_option
def explain(workload: str, namespace: str, kind: str, kubeconfig: Path | None, output: str) -> None:
    """Say why a workload waits, or where it runs and how well it is placed.

    NAME is that of a PodCliqueSet, DynamoGraphDeployment, PodGang, PodGroup, Job or any other owner of pods, or of a
    pod. Per gang: the reason, the domains that came closest and what they are short of, and what would fit; or the
    domain of each group, the score, nodes and ranks.
    """
    namespace, kind, name = _parsed(workload, namespace, kind, kubeconfig)
    explained = _read(kubeconfig, namespace, name, kind)
    if output != "table":
        print_structured(explained.to_json(), output)
        return
    from spinney.cli.render.explanation import shown

    here = screen()
    click.echo(shown(explained, here), nl=False, color=here.color)


def _parsed(workload: str, namespace: str, kind: str, kubeconfig: Path | None) -> tuple[str, str, str]:
    """Namespace, kind and name. What stands before a slash is a kind if it names one, or if there is -n."""
    from spinney.whatif.workloads import names_kind

    before, slash, name = workload.rpartition("/")
    if not name or "/" in before or bool(slash) != bool(before):
        likely = workload.strip("/").rpartition("/")[2] or "llm"
        raise click.UsageError(f"'{workload}' is not NAMESPACE/NAME, for example default/{likely}, nor [KIND/]NAME")
    if before and not namespace and not names_kind(before):
        return before, kind, name
    if before and kind and before != kind:
        raise click.UsageError(f"--kind {kind} and {workload} name two kinds")
    return namespace or namespace_of_context("explain", kubeconfig), before or kind, name


def _read(kubeconfig: Path | None, namespace: str, name: str, kind: str) -> WorkloadExplanation:
    from spinney.whatif.workloads import WorkloadNotFound, read_explanation

    try:
        return query_cluster("explain", kubeconfig, lambda client: read_explanation(client, namespace, name, kind))
    except WorkloadNotFound as error:
        stop("explain", str(error), NO)
