"""`spinney topology`: what a cluster's topologies are, and who uses them.

Never writes to the cluster: the right to read is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from spinney.drive.client.api import ApiClient

T = TypeVar("T")
_UNREADABLE = 2

_kubeconfig = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Cluster to look at. Default: KUBECONFIG, ~/.kube/config, or the cluster of this pod.",
)
_output = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)


@click.group()
def topology() -> None:
    """Look at the topologies of a cluster; nothing is changed."""


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
@_kubeconfig
@_output
@click.option("--no-headers", is_flag=True, help="Only the rows of the table.")
def usage(kubeconfig: Path | None, output: str, no_headers: bool) -> None:
    """List which PodCliqueSets use which ClusterTopology."""
    from spinney.cli.topology_usage import read_usage, table

    found = _looked("usage", kubeconfig, read_usage)
    if output == "table":
        click.echo(table(found, headers=not no_headers), nl=False)
    else:
        _print([one.to_json() for one in found], output)


def _looked(command: str, kubeconfig: Path | None, look: Callable[[ApiClient], Coroutine[Any, Any, T]]) -> T:
    """What a look at the cluster finds; a cluster that cannot be read is one line and an exit status."""
    import asyncio

    from spinney.drive.client.errors import ClientError

    try:
        return asyncio.run(_look(kubeconfig, look))
    except (ClientError, OSError) as error:
        click.echo(f"spinney topology {command}: {error}", err=True)
        raise SystemExit(_UNREADABLE) from None


async def _look(kubeconfig: Path | None, look: Callable[[ApiClient], Coroutine[Any, Any, T]]) -> T:
    from spinney.drive.client.api import ApiClient
    from spinney.drive.client.connect import connect, find_connection
    from spinney.drive.loop.clock import SystemClock, system_dice

    transport = connect(find_connection(SystemClock(), kubeconfig=kubeconfig))
    try:
        return await look(ApiClient(transport, system_dice()))
    finally:
        await transport.close()


def _print(shown: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        import json

        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    import yaml

    click.echo(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=120), nl=False)
