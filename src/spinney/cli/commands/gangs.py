"""`spinney gangs` and `spinney queues`: lists of what a cluster has. Never writes to the cluster.

Gangs that wait come first; queues stand with what they are promised, should have, hold and ask for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spinney.cli.options import kubeconfig_option, output_option, print_structured, query_cluster

if TYPE_CHECKING:
    from spinney.core.view.queue_list import QueueRow
    from spinney.whatif.workloads import GangList

_POLL_S = 2.0
SORTS = ("urgency", "name", "state", "pods", "queue", "domain", "score", "waiting")


@click.command(
    epilog="""\b
Examples:
  spinney gangs
  spinney gangs -n research --sort-by score
  spinney gangs -w
  spinney gangs -o json | jq -r '.[] | select(.waits) | "\\(.namespace)/\\(.name)  \\(.reason)"'

\b
Exit status: 0, also when there are no gangs; 2 when the cluster cannot be read.
Needed: to list pods and podgroups.scheduling.run.ai; with the right to read
nodes and topologies it also says in which domains pods run.
""",
)
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Only gangs of this namespace. Default: all.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Gangs of all namespaces, as without -n.")
@click.option(
    "--sort-by",
    type=click.Choice(SORTS),
    default="urgency",
    show_default=True,
    help="urgency: those that wait first, oldest first; score: lowest first; waiting: longest first.",
)
@click.option("-w", "--watch", is_flag=True, help="Print the table again whenever it changed, until Ctrl-C.")
@kubeconfig_option
@output_option
def gangs(
    namespace: str, all_namespaces: bool, sort_by: str, watch: bool, kubeconfig: Path | None, output: str
) -> None:
    """List gangs: state, pods, queue, domain, score, how long they wait, and why.

    PODS are bound of all; DOMAIN is the one that holds the whole gang; WAITING begins with the oldest pod without a
    node. `spinney explain NAMESPACE/NAME` says more about one gang.
    """
    if namespace and all_namespaces:
        raise click.UsageError("-n and -A exclude each other")
    if watch and output != "table":
        raise click.UsageError("-w goes with -o table only")
    if watch:
        follow(lambda: _table(_read(kubeconfig, namespace), sort_by))
        return
    found = _read(kubeconfig, namespace)
    if output == "table":
        click.echo(_table(found, sort_by), nl=False)
        return
    from spinney.core.view.gang_list import in_order

    print_structured([row.to_json() for row in in_order(found.rows, sort_by)], output)


def _read(kubeconfig: Path | None, namespace: str) -> GangList:
    from spinney.whatif.workloads import read_gangs

    found = query_cluster("gangs", kubeconfig, lambda client: read_gangs(client, namespace))
    for note in found.notes:
        click.echo(f"spinney gangs: {note}", err=True)
    return found


def _table(found: GangList, sort_by: str) -> str:
    from spinney.cli.render.gangs import table, width_of_output

    return table(found.rows, sort_by, now_s=time.time(), width=width_of_output())


def follow(read: Callable[[], str]) -> None:
    """Ages alone are a change too: how long a gang waits is what one watches."""
    shown = ""
    try:
        while True:
            text = read()
            if text != shown:
                click.echo(text if not shown else f"\n{text}", nl=False)
                shown = text
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        return


@click.command(
    epilog="""\b
Examples:
  spinney queues
  spinney queues research -o wide
  spinney queues -w
  spinney queues -o json | jq -r '.[] | select(.resources.gpu.borrowed > 0) | .name'

\b
Exit status: 0, also when there are no queues; 2 when the cluster cannot be read
or has no queue of that name.
Needed: to list queues.scheduling.run.ai.
""",
)
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("-w", "--watch", is_flag=True, help="Print the table again whenever it changed, until Ctrl-C.")
@kubeconfig_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="table: GPUs; wide: cores and memory as well.",
)
def queues(names: tuple[str, ...], watch: bool, kubeconfig: Path | None, output: str) -> None:
    """List queues: quota, limit, weight, priority, fair share, and what is used, asked for and borrowed.

    With NAME: these queues and those below them. SHARE is what the queue should have now; ASKED is what its gangs hold
    and the minimums of those that wait need; BORROWED is held beyond the quota.
    """
    if watch and output not in ("table", "wide"):
        raise click.UsageError("-w goes with -o table and -o wide only")
    if output in ("json", "yaml"):
        print_structured([row.to_json() for row in _read_queues(kubeconfig, names)], output)
    elif watch:
        follow(lambda: _queue_table(kubeconfig, names, output))
    else:
        click.echo(_queue_table(kubeconfig, names, output), nl=False)


def _queue_table(kubeconfig: Path | None, names: tuple[str, ...], output: str) -> str:
    from spinney.cli.render.queues import table

    return table(_read_queues(kubeconfig, names), wide=output == "wide")


def _read_queues(kubeconfig: Path | None, names: tuple[str, ...]) -> list[QueueRow]:
    from spinney.whatif.queues import read_queues

    found = query_cluster("queues", kubeconfig, lambda client: read_queues(client, names))
    if any(not row.is_told for row in found):
        click.echo(
            "spinney queues: no scheduler has written shares: the CRD of Queue has no such fields "
            "(`spinney manifests crds`), or another scheduler is at work",
            err=True,
        )
    return found
