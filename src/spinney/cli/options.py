"""What commands share: options that several have, a look at a cluster, printing for programs, the terminal.

Never writes to a cluster.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from spinney.drive.client.api import ApiClient
    from spinney.drive.client.informers.unreadable import Complaint, Unreadable

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
NO, UNREADABLE = 1, 2
"""Exit statuses: the answer is no; a command line, file, configuration or cluster that cannot be used."""
PIPE_WIDTH = 80
_NARROWEST = 40

_CONTEXT = "spinney.context"


def _keep_context(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    ctx.meta[_CONTEXT] = value


context_option = click.option(
    "--context",
    metavar="NAME",
    expose_value=False,
    callback=_keep_context,
    help="Context of the kubeconfig. Default: its current one.",
)


def chosen_context() -> str | None:
    """What `--context` says of the command that runs."""
    ctx = click.get_current_context(silent=True)
    found = ctx.meta.get(_CONTEXT) if ctx is not None else None
    return found if isinstance(found, str) else None


def kubeconfig_option(command: F) -> F:
    """`--kubeconfig`, and `--context` beside it."""
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Cluster to read. Default: KUBECONFIG, ~/.kube/config, or the cluster of this pod.",
    )
    return kubeconfig(context_option(command))


output_option = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration of the operator. Without it topology is on and the scheduler is kai-scheduler.",
)
manifests_option = click.option(
    "-f",
    "--filename",
    "manifests",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="MANIFEST",
    help="File, directory or - (standard input), with any number of documents. May be given several times.",
)


def strategy_options(command: F) -> F:
    """How best fit chooses: `strategy` for all gangs, `gpu_strategy` and `cpu_strategy` for some."""
    values = click.Choice(["binpack", "spread"])
    every = click.option(
        "--strategy", type=values, help="Fill domains, or keep them even. Default: --config, or binpack."
    )
    gpu = click.option("--gpu-strategy", type=values, help="The same for gangs that ask for GPUs or the like.")
    cpu = click.option("--cpu-strategy", type=values, help="The same for all other gangs.")
    return every(gpu(cpu(command)))


def consolidation_options(command: F) -> F:
    """What may be moved for a gang that fits nowhere: `consolidate`, `most_moves`, `most_gpus`, `every_s`."""
    count = click.IntRange(0, 10**6)
    options = (
        click.option(
            "--consolidate",
            type=click.Choice(["off", "on-request", "on"]),
            help="Move running pods for a gang that fits nowhere: never, when spinney consolidate asks, or as soon as "
            "all of them have a place elsewhere. Default: --config, or on unless a strategy is spread.",
        ),
        click.option("--max-moves", "most_moves", type=count, help="Pods for one gang. Default: --config, or 16."),
        click.option(
            "--max-moved-gpus", "most_gpus", type=count, help="GPUs of pods that are moved. Default: --config, or 64."
        ),
        click.option(
            "--moves-every",
            "every_s",
            type=click.FloatRange(0, 10**6),
            metavar="SECONDS",
            help="So long nothing more is looked for for the same gang. Default: --config, or 60.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class CommandGroup(click.Group):
    """A group that names the command that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        if near and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command '{name}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)


@dataclass(frozen=True, slots=True)
class Screen:
    """What text is written for."""

    width: int = PIPE_WIDTH
    color: bool = False
    is_unicode: bool = True


def screen() -> Screen:
    """80 columns in a pipe unless COLUMNS says otherwise; colours only on a terminal and never with NO_COLOR."""
    is_terminal = sys.stdout.isatty()
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) else 0
    if not width:
        width = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns if is_terminal else PIPE_WIDTH
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    color = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(max(width, _NARROWEST), color, encoding.startswith("utf"))


@contextmanager
def elapsed(label: str, after_s: float = 2.0, every_s: float = 1.0) -> Iterator[None]:
    """On a terminal: says on standard error how long the work of the block has taken, once it has taken long."""
    import threading

    if not sys.stderr.isatty():
        yield
        return
    done, told = threading.Event(), threading.Event()

    def tell() -> None:
        passed_s = after_s
        pause_s = after_s
        while not done.wait(pause_s):
            click.echo(f"\r{label}: {passed_s:.0f} s", nl=False, err=True)
            told.set()
            passed_s, pause_s = passed_s + every_s, every_s

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if told.is_set():
            click.echo("\r\033[K", nl=False, err=True)


def query_cluster(command: str, kubeconfig: Path | None, query: Callable[[ApiClient], Coroutine[Any, Any, T]]) -> T:
    """What a look at the cluster finds; a cluster that cannot be read is one line and exit status 2."""
    import asyncio

    from spinney.drive.client.errors import ClientError

    try:
        return asyncio.run(_query(command, kubeconfig, query))
    except (ClientError, OSError, ValueError) as error:
        stop(command, str(error), UNREADABLE)


def namespace_of_context(command: str, kubeconfig: Path | None) -> str:
    """The namespace of the context, as kubectl uses it."""
    from kube_apimachinery.system_clock import SystemClock
    from spinney.drive.client.config import kubeconfig as configured
    from spinney.drive.client.errors import ClientError

    try:
        return configured.find_connection(SystemClock(), kubeconfig=kubeconfig, context=chosen_context()).namespace
    except (ClientError, OSError, ValueError) as error:
        stop(command, str(error), UNREADABLE)


async def _query(command: str, kubeconfig: Path | None, query: Callable[[ApiClient], Coroutine[Any, Any, T]]) -> T:
    from spinney.drive.client.config.kubeconfig import cluster_client

    async with cluster_client(kubeconfig, left_out(command), chosen_context()) as client:
        return await query(client)


def left_out(command: str) -> Unreadable:
    """Objects that can not be read are one line each on standard error, and the command goes on without them."""
    from spinney.cli.render.columns import plain
    from spinney.drive.client.informers.unreadable import Unreadable

    def write(complaint: Complaint, error: Exception | None) -> None:
        click.echo(f"spinney {command}: left out: {plain(str(complaint))}", err=True)

    return Unreadable(write)


def stop(command: str, why: str, status: int) -> NoReturn:
    """One line on standard error, and the end."""
    line = " ".join(part.strip() for part in why.splitlines())
    click.echo(f"spinney {command}: {line}", err=True)
    raise SystemExit(status)


def print_structured(found: Any, output: str) -> None:
    """JSON or YAML of plain values, keys in the order they have."""
    if output == "json":
        import json

        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(found, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    click.echo(text, nl=False)
