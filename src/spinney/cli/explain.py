"""`spinney explain`: why a workload waits, or why it is where it is.

Tells what the scheduler has told, from the same annotations, conditions and nodes. Never writes to the cluster.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from spinney.core.view.story import Story

_NO, _UNREADABLE = 1, 2


@click.command(
    epilog="""\b
Examples:
  spinney explain default/llm
  spinney explain default/llm-0-decode-x7k2p     # a pod: the story of its gang
  spinney explain research/train --kind Job
  spinney explain default/llm -o json | jq '.gangs[] | select(.waits)'

\b
Exit status: 0 when there was something to explain, 1 when there is no such
object or it has no gang yet, 2 when the cluster cannot be read. Needed: to list
pods and podgroups.scheduling.run.ai in the namespace; with the right to read
nodes and topologies it also says in which domains pods run.
""",
)
@click.argument("workload", metavar="NAMESPACE/NAME")
@click.option(
    "--kind", metavar="KIND", default="", help="Kind of the object, where several have that name. Default: look."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Cluster to look at. Default: KUBECONFIG, ~/.kube/config, or the cluster of this pod.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def explain(workload: str, kind: str, kubeconfig: Path | None, output: str) -> None:
    """Say why a workload waits, or where it runs and how well it is placed.

    NAME is that of a PodCliqueSet, DynamoGraphDeployment, PodGang, PodGroup, Job or any other owner of pods, or of a
    pod. Per gang: the reason, the domains that came closest and what they are short of, and what would fit; or the
    domain of each group, the score, nodes and ranks.
    """
    namespace, slash, name = workload.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise click.UsageError(f"'{workload}' is not NAMESPACE/NAME, for example default/{name or namespace or 'llm'}")
    story = _read(kubeconfig, namespace, name, kind)
    if output != "table":
        _print(story.to_json(), output)
        return
    from spinney.cli.explain_table import shown

    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    click.echo(shown(story, color=color), nl=False, color=color)


def _read(kubeconfig: Path | None, namespace: str, name: str, kind: str) -> Story:
    from spinney.cli.explain_finding import NotThere
    from spinney.drive.client.errors import ClientError

    try:
        return asyncio.run(_look(kubeconfig, namespace, name, kind))
    except NotThere as error:
        _stop(str(error), _NO)
    except (ClientError, OSError, ValueError) as error:
        _stop(str(error), _UNREADABLE)


async def _look(kubeconfig: Path | None, namespace: str, name: str, kind: str) -> Story:
    from spinney.cli.explain_reading import read_story
    from spinney.drive.client.api import ApiClient
    from spinney.drive.client.connect import connect, find_connection
    from spinney.drive.loop.clock import SystemClock, system_dice

    transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig))
    try:
        return await read_story(ApiClient(transport, system_dice()), namespace, name, kind)
    finally:
        await transport.close()


def _stop(why: str, status: int) -> NoReturn:
    click.echo(f"spinney explain: {why}", err=True)
    raise SystemExit(status)


def _print(found: dict[str, Any], output: str) -> None:
    if output == "json":
        import json

        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    import yaml

    click.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=120), nl=False)
