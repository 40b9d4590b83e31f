"""`spinney run`: roles against a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from spinney.cli.options import CommandGroup, consolidation_options, strategy_options

F = TypeVar("F", bound=Callable[..., Any])

_EXIT = "Exit status: 0 stopped by a signal, 1 a failure, 2 configuration, 3 start-up synchronisation."


@click.group(cls=CommandGroup)
def run() -> None:
    """Run a role against a cluster, in the foreground."""


def cluster_options(command: F) -> F:
    """What every role is given: which cluster, and how it is configured."""
    config = click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="OperatorConfiguration, read once at the start. "
        "Default: topology aware scheduling off, only the default scheduler.",
    )
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Cluster to work on. Default: KUBECONFIG, ~/.kube/config, or the cluster of this pod.",
    )
    secure = click.option(
        "--metrics-secure",
        is_flag=True,
        help="Serve metrics over TLS, to bearers of a token who may get the path /metrics. Default: over plain HTTP.",
    )
    return kubeconfig(config(secure(command)))


def webhook_options(command: F) -> F:
    """What only the webhook is given."""
    options = (
        click.option(
            "--bind-address",
            default="",
            metavar="ADDRESS",
            help="Where the webhook listens. Default: server.webhooks.bindAddress of the configuration, or 127.0.0.1.",
        ),
        click.option(
            "--webhook-port",
            type=click.IntRange(0, 65535),
            help="Port of the webhook; 0 picks a free one. Default: server.webhooks.port of the configuration.",
        ),
        click.option(
            "--cert-dir",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Take tls.crt, tls.key and ca.crt from here. Default: certificates made and replaced by the webhook.",
        ),
        click.option(
            "--service",
            default="",
            metavar="NAMESPACE/NAME",
            help="The Service that the configurations of `spinney manifests webhooks` name. "
            "Without it configurations are made that name the address of this process.",
        ),
        click.option(
            "--operator-user",
            default="",
            metavar="NAME",
            help="Who may write the default topology. Default: the service account of the operator.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@run.command(
    epilog=f"""\b
Examples:
  spinney run operator --kubeconfig ~/.kube/config --config operator.yaml

{_EXIT}
"""
)
@cluster_options
def operator(kubeconfig: Path | None, config: Path | None, metrics_secure: bool) -> None:
    """Turn PodCliqueSets into PodCliques, PodGangs and pods, and keep ClusterTopologies."""
    from spinney.cli.wiring.roles.runner import run_roles

    raise SystemExit(run_roles(["operator"], kubeconfig, config, metrics_secure=metrics_secure))


@run.command(
    epilog=f"""\b
Examples:
  spinney run webhook --kubeconfig ~/.kube/config --config operator.yaml
  spinney run webhook --service spinney-system/spinney-webhook --bind-address 0.0.0.0

{_EXIT}
"""
)
@cluster_options
@webhook_options
def webhook(kubeconfig: Path | None, config: Path | None, metrics_secure: bool, **options: Any) -> None:
    """Default, validate and convert our kinds for an API server, over HTTPS."""
    from spinney.cli.wiring.roles.runner import run_roles

    raise SystemExit(run_roles(["webhook"], kubeconfig, config, _webhook(options), metrics_secure=metrics_secure))


@run.command(
    epilog=f"""\b
Examples:
  spinney run scheduler --kubeconfig ~/.kube/config
  spinney run scheduler --scheduler-name kai-scheduler --scheduler-name default-scheduler
  spinney run scheduler --gpu-strategy binpack --cpu-strategy spread

{_EXIT}
"""
)
@cluster_options
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Whose pods it schedules; may be given several times. Default: kai-scheduler.",
)
@strategy_options
@click.option(
    "--node-pool", default="", metavar="NAME", help="Only nodes and gangs of this pool. Default: those of no pool."
)
@click.option(
    "--staleness-grace-period",
    "grace_s",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="So long a gang may run below its minimum before the rest of it is ended; negative: for ever.",
)
@consolidation_options
def scheduler(
    kubeconfig: Path | None,
    config: Path | None,
    metrics_secure: bool,
    names: tuple[str, ...],
    strategy: str | None,
    gpu_strategy: str | None,
    cpu_strategy: str | None,
    node_pool: str,
    grace_s: float,
    consolidate: str | None,
    most_moves: int | None,
    most_gpus: int | None,
    every_s: float | None,
) -> None:
    """Place gangs of pods on nodes, topology first, and group pods that are in no gang."""
    from spinney.cli.wiring.roles.runner import run_roles
    from spinney.cli.wiring.scheduler_choices import SchedulerChoices
    from spinney.core.scheduling.settings import Settings

    settings = Settings(node_pool=node_pool, staleness_grace_s=grace_s)
    if names:
        settings = replace(settings, names=frozenset(names))
    choices = SchedulerChoices(
        gpu_strategy or strategy, cpu_strategy or strategy, consolidate, most_moves, most_gpus, every_s
    )
    role = ["scheduler"]
    raise SystemExit(
        run_roles(role, kubeconfig, config, scheduler=settings, choices=choices, metrics_secure=metrics_secure)
    )


@run.command(
    epilog=f"""\b
Examples:
  spinney run dynamo --kubeconfig ~/.kube/config --config operator.yaml

{_EXIT}
"""
)
@cluster_options
def dynamo(kubeconfig: Path | None, config: Path | None, metrics_secure: bool) -> None:
    """Turn DynamoGraphDeployments into PodCliqueSets, and report on their status."""
    from spinney.cli.wiring.roles.runner import run_roles

    raise SystemExit(run_roles(["dynamo"], kubeconfig, config, metrics_secure=metrics_secure))


@run.command(
    epilog=f"""\b
Examples:
  spinney run dashboard --kubeconfig ~/.kube/config
  spinney run dashboard --address 0.0.0.0:8088 --token-file ./token

{_EXIT}
"""
)
@cluster_options
@click.option(
    "--address",
    default="",
    metavar="HOST:PORT",
    help="Where pages are served; port 0 picks a free one. Default: loopback, port 8088 or a free one.",
)
@click.option(
    "--cert-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Serve over TLS with tls.crt and tls.key from here. Default: a certificate made here, and plain on loopback.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Ask for the token in this file. Default: a new one, shown once, and none on loopback.",
)
def dashboard(
    kubeconfig: Path | None,
    config: Path | None,
    metrics_secure: bool,
    address: str,
    token_file: Path | None,
    cert_dir: Path | None,
) -> None:
    """Show the cluster in a browser: capacity, topologies, gangs, and why they wait. Read-only."""
    from spinney.cli.wiring.roles.registry import DashboardOptions, address_of
    from spinney.cli.wiring.roles.runner import run_roles
    from spinney.whatif.inputs.operator_settings import ConfigurationError

    try:
        host, port = address_of(address) if address else ("127.0.0.1", None)
    except ConfigurationError as error:
        click.echo(f"spinney run dashboard: {error}", err=True)
        raise SystemExit(2) from None
    options = DashboardOptions(host, port, token_file, cert_dir)
    raise SystemExit(run_roles(["dashboard"], kubeconfig, config, dashboard=options, metrics_secure=metrics_secure))


@run.command(
    epilog=f"""\b
Examples:
  spinney run watchdog --kubeconfig ~/.kube/config
  spinney run watchdog --events --scheduler-name kai-scheduler

{_EXIT}
"""
)
@cluster_options
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Whose pods are checked; may be given several times. Default: kai-scheduler.",
)
@click.option("--events", is_flag=True, help="Write a Warning event on the object whose write broke an invariant.")
def watchdog(
    kubeconfig: Path | None, config: Path | None, metrics_secure: bool, names: tuple[str, ...], events: bool
) -> None:
    """Check the scheduler's invariants beside a running cluster: reads pods, nodes, gangs, queues and topologies.

    Broken invariants (overcommit, partly bound gangs, split topologies, binds without a record, unlawful evictions)
    are logged and counted in metrics. It never intervenes.
    """
    from spinney.cli.wiring.roles.registry import WatchdogOptions
    from spinney.cli.wiring.roles.runner import run_roles

    options = WatchdogOptions(frozenset(names), events) if names else WatchdogOptions(events=events)
    raise SystemExit(run_roles(["watchdog"], kubeconfig, config, watchdog=options, metrics_secure=metrics_secure))


@run.command("all", epilog=_EXIT)
@cluster_options
@webhook_options
def everything(kubeconfig: Path | None, config: Path | None, metrics_secure: bool, **options: Any) -> None:
    """Run every role in one process."""
    from spinney.cli.wiring.roles.registry import MAKERS
    from spinney.cli.wiring.roles.runner import run_roles

    raise SystemExit(run_roles(list(MAKERS), kubeconfig, config, _webhook(options), metrics_secure=metrics_secure))


def _webhook(options: dict[str, Any]) -> Any:
    from spinney.cli.wiring.roles.registry import WebhookOptions

    return WebhookOptions(
        options["bind_address"],
        options["webhook_port"],
        options["cert_dir"],
        options["service"],
        options["operator_user"],
    )
