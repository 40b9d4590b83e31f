"""`spinney up` and `spinney demo`: the stack on this machine, in the foreground, until it is told to stop."""

from __future__ import annotations

from pathlib import Path

import click

from spinney.cli.options import consolidation_options, strategy_options


@click.command(
    epilog="""\b
Examples:
  spinney demo
  spinney demo --keep        # then explore it with kubectl and in the browser

\b
What it applies is in examples/demo. Nothing is left behind without --keep, and
nothing outside this process is touched.

\b
Exit status: 0 when everything was as it should be, 1 when a check failed, 2 when
the kubeconfig cannot be written, 3 when the stack did not start, 130 when it was
interrupted before the end.
""",
)
@click.option("--keep", is_flag=True, help="Leave the stack running at the end and say how to inspect it.")
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


@click.command(
    epilog="""\b
Examples:
  spinney up
  spinney up --nodes examples/nodes/gb200.yaml -f examples/job.yaml
  spinney up --port 6443 --data-dir ./state      # a restart finds its state
  spinney up --real                              # on a real kube-apiserver and etcd
  sudo spinney up --real --kubelet 2 --image app.tar   # two nodes that run containers
  spinney up --cpu-strategy spread               # GPU gangs close together, others evenly
  spinney up --dashboard-port 0                  # pages on a free port; printed after "ready"
""",
)
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Nodes to simulate: v1 Nodes as YAML, or a compact description. Default: 16 GPU nodes in 4 racks; none with "
    "--kubelet.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="OperatorConfiguration. Default: scheduler kai, topology aware scheduling by zone, block, rack and host.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT",
    default=Path(".spinney/kubeconfig"),
    show_default=True,
    help="Where to write the kubeconfig.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Anything but loopback is served by TLS only, and asks for a token.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one", help="Port of the API.")
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    show_default="8088, or a free one where that is taken",
    help="Port of the pages; 0 picks a free one. Anywhere but on loopback they ask for a token, which is shown once.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the state here; a restart finds it. Without it everything is in memory.",
)
@strategy_options
@consolidation_options
@click.option("--real", is_flag=True, help="Run on a real kube-apiserver and etcd, built once if they are not there.")
@click.option(
    "--kubelet",
    "kubelets",
    type=click.IntRange(1, 8),
    is_flag=False,
    flag_value=1,
    default=None,
    metavar="[COUNT]",
    help="Nodes that really run containers, one by default: kubelet and containerd in namespaces of their own. Needs "
    "--real, Linux and root. They reach nothing outside: images come from --image.",
)
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Give these nodes the images in an archive, as `docker save` and `podman save` write it. May be given several "
    "times. Besides there is localhost/busybox:1.",
)
@click.option(
    "--third-party/--no-third-party",
    default=True,
    show_default=True,
    help="Serve the kinds of Kubeflow, JobSet, LeaderWorkerSet, Ray and Knative, and make their pods. Without it their "
    "own definitions and controllers can be installed.",
)
@click.option(
    "-f",
    "--filename",
    "manifests",
    multiple=True,
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="MANIFEST",
    help="Apply this file, directory or - (standard input) when everything is up. May be given several times.",
)
def up(
    nodes_file: Path | None,
    config: Path | None,
    kubeconfig: Path,
    host: str,
    port: int,
    dashboard_port: int | None,
    data_dir: Path | None,
    strategy: str | None,
    gpu_strategy: str | None,
    cpu_strategy: str | None,
    real: bool,
    kubelets: int | None,
    images: tuple[Path, ...],
    third_party: bool,
    manifests: tuple[Path, ...],
    consolidate: str | None,
    most_moves: int | None,
    most_gpus: int | None,
    every_s: float | None,
) -> None:
    """Run the stack in the foreground: an API server that kubectl can talk to, the roles, simulated nodes, and pages.

    Prints a line that starts with "ready" when everything is up. Ctrl-C stops it cleanly. Beside the pages, under
    /metrics, are the figures of the scheduler.
    """
    from spinney.cli.wiring.api_servers import StackOptions
    from spinney.cli.wiring.scheduler_choices import SchedulerChoices
    from spinney.cli.wiring.stack import run

    choices = SchedulerChoices(
        gpu_strategy or strategy, cpu_strategy or strategy, consolidate, most_moves, most_gpus, every_s
    )
    options = StackOptions(
        nodes_file,
        kubeconfig,
        host,
        port,
        data_dir,
        real,
        manifests,
        config,
        dashboard_port,
        choices,
        kubelets or 0,
        images,
        third_party,
    )
    raise SystemExit(run(options))
