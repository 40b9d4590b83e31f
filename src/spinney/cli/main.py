"""The command line: names, options and help; everything heavy is imported by the command that needs it."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Sequence

import click

from spinney.cli.options import NO, CommandGroup
from spinney.version import VERSION

_COMMANDS = {
    "demo": ("spinney.cli.commands.up", "demo", "Show gang scheduling on a mixed cluster, in half a minute."),
    "up": (
        "spinney.cli.commands.up",
        "up",
        "Run the whole stack on this machine: API server, operator, simulated nodes.",
    ),
    "place": ("spinney.cli.commands.place", "place", "Place the gangs of a problem on its nodes, or say why not."),
    "plan": (
        "spinney.cli.commands.plan",
        "plan",
        "Say whether workloads would fit, where, and how many copies of them.",
    ),
    "gangs": ("spinney.cli.commands.gangs", "gangs", "List gangs, those that wait first, and why they wait."),
    "queues": ("spinney.cli.commands.gangs", "queues", "List queues with their quotas, shares and what they use."),
    "explain": ("spinney.cli.commands.explain", "explain", "Say why a workload waits, or why it is where it is."),
    "convert": (
        "spinney.cli.commands.validate",
        "convert",
        "Print DynamoGraphDeployments in another version of their API.",
    ),
    "consolidate": (
        "spinney.cli.commands.consolidate",
        "consolidate",
        "Show moves that would make room, or have them made.",
    ),
    "replay": (
        "spinney.cli.commands.replay",
        "replay",
        "Replay a trace of gangs on described nodes in simulated time.",
    ),
    "validate": ("spinney.cli.commands.validate", "validate", "Say whether manifests would be admitted, and why not."),
    "topology": (
        "spinney.cli.commands.topology",
        "topology",
        "Show the topologies of a cluster, and the sets that use them.",
    ),
    "run": ("spinney.cli.commands.run", "run", "Run a role against a cluster."),
    "manifests": ("spinney.cli.commands.manifests", "manifests", "Print the manifests that a cluster needs."),
    "uninstall": (
        "spinney.cli.commands.uninstall",
        "uninstall",
        "End the roles and release what they keep, before everything is deleted.",
    ),
    "initc": ("spinney.cli.commands.initc", "initc", "Wait for parent cliques; runs inside pods."),
    "bench": ("spinney.cli.commands.bench", "bench", "Run the benchmarks and print their figures."),
}


class _Lazy(CommandGroup):
    """Knows the commands by name and loads one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try: spinney up, and then in another terminal: kubectl --kubeconfig .spinney/kubeconfig get nodes",
)
@click.version_option(VERSION, prog_name="spinney")
def cli() -> None:
    """Topology-aware gang scheduling for Kubernetes GPU clusters."""


INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `spinney` and `kubectl-spinney`. Ends with one line and a status, never with a traceback for what
    is not our fault: an interrupt, or an output that cannot be written.
    """
    try:
        status = _called(list(arguments) if arguments is not None else None)
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_THE_OUTPUT:
            raise
        _abandon_output()
        if error.errno != errno.EPIPE:  # whoever closed a pipe has read enough
            click.echo(f"spinney: standard output: cannot be written: {error.strerror}", err=True)
        status = NO
    raise SystemExit(status)


_OF_THE_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT)


def _called(arguments: list[str] | None) -> str | int | None:
    try:
        found = cli.main(args=arguments, prog_name="spinney", standalone_mode=False)
        return found if isinstance(found, int) else 0
    except SystemExit as end:
        return end.code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED


def _abandon_output() -> None:
    """What is left in the buffer cannot be written at the end of the process either."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
