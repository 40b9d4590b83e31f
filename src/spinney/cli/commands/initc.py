"""`spinney initc`: the init container that waits until the parents of its pod's clique are up (2.6)."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    epilog="""\b
Example, as the operator writes it into a pod:
  spinney initc --podcliques=chat-0-leader:1 --podcliques=chat-0-router:2
"""
)
@click.option(
    "--podcliques",
    multiple=True,
    required=True,
    metavar="NAME:MIN",
    help="A PodClique and how many Ready pods of it are needed. May be repeated, or hold several with commas.",
)
@click.option(
    "--pod-info",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/var/grove/pod-info"),
    show_default=True,
    help="Directory with the files namespace and podgangname.",
)
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
def initc(podcliques: tuple[str, ...], pod_info: Path, kubeconfig: Path | None) -> None:
    """Wait until every parent clique has enough Ready pods in the gang of this pod, then exit with 0."""
    from spinney.cli.wiring.initc_wait import wait

    raise SystemExit(wait(podcliques, pod_info, kubeconfig))
