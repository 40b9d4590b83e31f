"""A stack in this process for the length of a demonstration, or until it is told to stop.

Leaves nothing behind unless it was asked to: without a wish to keep it, even its kubeconfig is a passing one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import click

from spinney.api.labels import SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.api_servers import Api, embedded
from spinney.cli.demo_manifests import manifests
from spinney.cli.demo_script import DemoFailed, perform
from spinney.cli.demo_stage import Stage
from spinney.cli.foreground import causes, loop_factory, note, on_signal, until_stopped
from spinney.cli.logs import log_to_stderr
from spinney.cli.operator_settings import admission_of, dynamo_admission_of, dynamo_settings_of, read_configuration
from spinney.cli.options import NO, UNREADABLE, screen
from spinney.cli.stack_options import ConfigurationError, StackOptions
from spinney.drive.client.errors import ClientError
from spinney.drive.loop.clock import SystemClock, system_dice
from spinney.drive.loop.operator.configured import settings_of
from spinney.drive.loop.scheduler.settings import Settings as SchedulerSettings
from spinney.sim.stack import Parts, Stack

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
    async with embedded(options, rules) as api, _standing(api, configuration):
        stage = Stage(api.transport)
        try:
            await perform(stage, screen(), started)
        except (DemoFailed, ClientError) as error:
            click.echo(f"spinney demo: {error}", err=True)
            ending.status = NO
            return
        ending.status = OK
        if keep:
            await _kept(api, options, configuration)


@contextlib.asynccontextmanager
async def _standing(api: Api, configuration: OperatorConfiguration) -> AsyncIterator[None]:
    """Nodes, controllers, operator, scheduler and Dynamo part for as long as the block lasts."""
    parts = Parts(
        nodes=manifests("nodes"),
        operator=settings_of(configuration),
        scheduler=SchedulerSettings(names=frozenset({SCHEDULER_KAI, SCHEDULER_DEFAULT})),
        dynamo=dynamo_settings_of(configuration),
    )
    roles = {role: api.as_role(role) for role in ("operator", "scheduler", "dynamo")}
    stack = Stack(api.transport, SystemClock(), system_dice(), parts, **roles)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(stack.run(), name="stack")
        for ready in (stack.registered, stack.operating, stack.scheduling, stack.deploying):
            await ready.wait()
        yield
        running.cancel()


async def _kept(api: Api, options: StackOptions, configuration: OperatorConfiguration) -> None:
    from spinney.cli.dashboard import dashboard
    from spinney.cli.dashboard_options import DashboardOptions

    async with dashboard(api.as_role("dashboard"), DashboardOptions(_LOOPBACK, None), configuration) as page:
        click.echo(f"\nIt keeps running. In another terminal:\n  export KUBECONFIG={options.kubeconfig.resolve()}")
        click.echo("  kubectl get pcs,dgd,jobs,pods -o wide\n  kubectl describe podgroup giant-0")
        click.echo("  spinney explain default/giant\n  spinney topology show --gang default/chat-0")
        click.echo(f"In the browser: {page}\nCtrl-C stops it")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()
