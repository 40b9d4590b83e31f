"""`spinney demo`: the main job from start to end on this machine, with every claim checked."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    epilog="""\b
Examples:
  spinney demo
  spinney demo --keep        # then look around with kubectl and in the browser

\b
What it applies is in examples/demo. Nothing is left behind without --keep, and
nothing outside this process is touched.

\b
Exit status: 0 when everything was as it should be, 1 when a check failed, 2 when
the kubeconfig cannot be written, 3 when the stack did not start, 130 when it was
interrupted before the end.
""",
)
@click.option("--keep", is_flag=True, help="Leave the stack running at the end and say how to look at it.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT",
    default=Path(".spinney/demo.kubeconfig"),
    show_default=True,
    help="Where to write the kubeconfig of a stack that is kept.",
)
def demo(keep: bool, kubeconfig: Path) -> None:
    """Show gang scheduling on a mixed cluster: placed at three levels, refused with a reason, scaled in its block.

    An API server, simulated nodes, operator and scheduler run in this process. On them: a disaggregated inference
    set, a DynamoGraphDeployment, an annotated Job, a gang that cannot fit, and a scale-out; topology trees close it.
    """
    click.echo("Starting an API server, 40 nodes, operator and scheduler in this process")
    from spinney.cli.demonstration import run

    raise SystemExit(run(keep=keep, kubeconfig=kubeconfig))
