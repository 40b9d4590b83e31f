"""`spinney consolidate`: moves that would make room for gangs that wait, with what they cost; made on request.

The scheduler makes them, one gang after the other, by the same rules; the command only asks for it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spinney.cli.options import (
    NO,
    UNREADABLE,
    chosen_context,
    elapsed,
    kubeconfig_option,
    left_out,
    output_option,
    print_structured,
    stop,
)

if TYPE_CHECKING:
    from spinney.api.placement.problem import Consolidate
    from spinney.whatif.consolidation import Survey


@click.command(
    epilog="""\b
Examples:
  spinney consolidate
  spinney consolidate research/train --max-moves 4
  spinney consolidate research/train --apply
  spinney consolidate -o json | jq '.gangs[].moves[]'

\b
Moved are pods of preemptible gangs that are not more important than the gang
that waits, that their owners make anew, and that no PodDisruptionBudget
protects. Each keeps its required topology and has its new place reserved.
Exit status: 0; 1 when there is no such gang; 2 when the cluster cannot be read
or a request is refused.
Needed: to list nodes, pods, podgroups.scheduling.run.ai, topologies,
priorityclasses and poddisruptionbudgets; with --apply to patch podgroups.
""",
)
@click.argument("gang", metavar="[NAMESPACE/PODGROUP]", required=False, default="")
@click.option(
    "--dry-run/--apply", "dry_run", default=True, help="Only show the moves, or have them made. Default: show."
)
@click.option("--max-moves", type=click.IntRange(1, 999_999), default=16, show_default=True, help="For one gang.")
@click.option(
    "--max-loss",
    type=click.FloatRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="What a moved gang may lose of its placement score.",
)
@kubeconfig_option
@output_option
def consolidate(
    gang: str, dry_run: bool, max_moves: int, max_loss: float, kubeconfig: Path | None, output: str
) -> None:
    """Show which gangs that wait would fit if running pods were moved, and what that costs.

    Also: how large a gang of such pods each level of each topology takes, now and after moves.
    """
    from spinney.api.placement.problem import Consolidate
    from spinney.drive.client.errors import ClientError

    if gang and gang.count("/") != 1:
        raise click.UsageError(f"'{gang}' is not NAMESPACE/PODGROUP, for example default/{gang.rpartition('/')[2]}")
    try:
        with elapsed("looking for moves"):
            found = asyncio.run(_survey_cluster(kubeconfig, gang, Consolidate(max_moves, max_loss), dry_run))
    except (ClientError, OSError, ValueError) as error:
        stop("consolidate", str(error), UNREADABLE)
    _print(found, output)
    if not dry_run and found.offers:
        names = ", ".join(offer.gang for offer in found.offers)
        where = "a scheduler does so that runs with --consolidate on-request, as in spinney up"
        click.echo(f"asked the scheduler to make room for {names}; {where}", err=True)


async def _survey_cluster(kubeconfig: Path | None, gang: str, limits: Consolidate, dry_run: bool) -> Survey:
    from kube_apimachinery.system_clock import system_dice
    from spinney.core.scheduling.gang.parsed_gang import gang_name
    from spinney.drive.apply.door import Door
    from spinney.drive.client.config.kubeconfig import cluster_client
    from spinney.whatif.consolidation import read_objects, request_moves, survey

    async with cluster_client(kubeconfig, left_out("consolidate"), chosen_context()) as client:
        objects = await read_objects(client, gang)
        if gang and not any(gang_name(group) == gang for group in objects.groups):
            stop("consolidate", f"there is no PodGroup {gang}", NO)
        found = survey(objects, limits, gang)
        door = Door(client.transport, system_dice(), field_manager="spinney-consolidate")
        for offer in found.offers if not dry_run else ():
            await request_moves(door, offer, limits)
        return found


def _print(found: Survey, output: str) -> None:
    if output == "table":
        from spinney.cli.render.plan import survey_shown

        click.echo(survey_shown(found), nl=False)
        return
    print_structured(found.to_json(), output)
