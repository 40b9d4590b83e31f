"""A stack in this process for the length of a demonstration, or until it is told to stop.

Leaves nothing behind unless it was asked to: without a wish to keep it, even its kubeconfig is a passing one.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.demonstration.cluster import DemoCluster, manifests
from spinney.cli.demonstration.script import DemoFailed, perform
from spinney.cli.options import NO, UNREADABLE, screen
from spinney.cli.wiring.api_servers import ApiServer, embedded
from spinney.cli.wiring.foreground import causes, loop_factory, note, on_signal, until_stopped
from spinney.cli.wiring.local_roles import running_roles
from spinney.cli.wiring.logs import log_to_stderr
from spinney.cli.wiring.stack_options import StackOptions
from spinney.drive.client.errors import ClientError
from spinney.whatif.inputs.operator_settings import (
    ConfigurationError,
    admission_of,
    dynamo_admission_of,
    read_configuration,
)

OK, NOT_STARTED, INTERRUPTED = 0, 3, 130
_LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class _Ending:
    """How it ended so far."""

    status: int = INTERRUPTED


def run(*, keep: bool, kubeconfig: Path) -> int:
    """The exit status."""
    on_signal(signal.default_int_handler)
    log_to_stderr(logging.ERROR)
    ending = _Ending()
    try:
        with tempfile.TemporaryDirectory(prefix="spinney-demo-") as passing:
            path = kubeconfig if keep else Path(passing) / "kubeconfig"
            options = StackOptions(None, path, _LOOPBACK, 0, None, False, ())
            options.check()
            factory = loop_factory()
            on_signal(note)
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(until_stopped(_demonstrated(options, keep, ending)))
    except KeyboardInterrupt:
        pass
    except Exception as error:
        ending.status = UNREADABLE if isinstance(error, ConfigurationError) else NOT_STARTED
        click.echo(f"spinney demo: {'; '.join(str(cause) or repr(cause) for cause in causes(error))}", err=True)
    if ending.status == INTERRUPTED:
        click.echo("spinney demo: interrupted, everything is stopped", err=True)
    return ending.status


async def _demonstrated(options: StackOptions, keep: bool, ending: _Ending) -> None:
    configuration = read_configuration(None)
    rules = (admission_of(configuration), dynamo_admission_of(configuration))
    started = time.monotonic()
    async with embedded(options, rules) as api, running_roles(api, manifests("nodes"), configuration):
        stage = DemoCluster(api.transport)
        try:
            await perform(stage, screen(), started)
        except (DemoFailed, ClientError) as error:
            click.echo(f"spinney demo: {error}", err=True)
            ending.status = NO
            return
        ending.status = OK
        if keep:
            await _kept(api, options, configuration)


async def _kept(api: ApiServer, options: StackOptions, configuration: OperatorConfiguration) -> None:
    from spinney.cli.wiring.dashboard import dashboard
    from spinney.cli.wiring.dashboard_options import DashboardOptions

    async with dashboard(api.as_role("dashboard"), DashboardOptions(_LOOPBACK, None), configuration) as page:
        click.echo(f"\nIt keeps running. In another terminal:\n  export KUBECONFIG={options.kubeconfig.resolve()}")
        click.echo("  kubectl get pcs,dgd,jobs,pods -o wide\n  kubectl describe podgroup giant-0")
        click.echo("  spinney explain default/giant\n  spinney topology show --gang default/chat-0")
        click.echo(f"In the browser: {page}\nCtrl-C stops it")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()
