"""`spinney run`: a role against a cluster."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def run() -> None:
    """Run a role against a cluster, in the foreground."""


@run.command(
    epilog="""\b
Examples:
  spinney run operator --kubeconfig ~/.kube/config --config operator.yaml

Exit status: 0 stopped by a signal, 1 leadership lost or a failure, 2 configuration, 3 start-up synchronisation.
"""
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Cluster to work on. Default: KUBECONFIG, ~/.kube/config, or the cluster of this pod.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="OperatorConfiguration. Default: topology aware scheduling off, only the default scheduler.",
)
def operator(kubeconfig: Path | None, config: Path | None) -> None:
    """Turn PodCliqueSets into PodCliques, PodGangs and pods, and keep ClusterTopologies."""
    from spinney.cli.run_operator import run_operator

    raise SystemExit(run_operator(kubeconfig, config))
