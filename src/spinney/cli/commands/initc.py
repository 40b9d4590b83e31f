"""`spinney initc`: the init container that waits until the parents of its pod's clique are up (2.6).

Pods of the gang are watched, and counted by their labels. Never matches a pod to a clique by its name, and never writes
anything.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from kube_apimachinery.system_clock import system_dice
from spinney.api.labels import PODCLIQUE, PODGANG
from spinney.cli.wiring.process import causes, on_signal, run_until_stopped
from spinney.core.expansion.objects import PODS
from spinney.core.expansion.podclique.desired_pod import Parent
from spinney.core.expansion.podclique.pod_state import Pod, is_gone, is_ready
from spinney.drive.apply.change_applier import path_of
from spinney.drive.client.api import Selection
from spinney.drive.client.config.kubeconfig import cluster_client
from spinney.drive.client.errors import ClientError
from spinney.drive.client.informers.cache import Cache, OwnWrites
from spinney.drive.client.informers.shared_caches import SharedCaches

OK, FAILED, USAGE = 0, 1, 2


def wait(podcliques: Iterable[str], pod_info: Path, kubeconfig: Path | None) -> int:
    """Until the parents are up; the exit status."""
    on_signal(signal.default_int_handler)
    try:
        parents = [parent_of(part) for text in podcliques for part in text.split(",") if part]
        namespace, gang = (_read(pod_info / name) for name in ("namespace", "podgangname"))
    except ValueError as error:
        click.echo(f"spinney initc: {error}", err=True)
        return USAGE
    try:
        up = _up_or_stopped(parents, namespace, gang, kubeconfig)
    except KeyboardInterrupt:
        return FAILED
    except Exception as error:
        found = list(causes(error))
        if not all(isinstance(cause, (ClientError, OSError)) for cause in found):
            raise
        click.echo(f"spinney initc: {'; '.join(str(cause) for cause in found)}", err=True)
        return FAILED
    return OK if up else FAILED


def _up_or_stopped(parents: list[Parent], namespace: str, gang: str, kubeconfig: Path | None) -> bool:
    """Whether the parents came up; a signal ends the waiting, and then the pod must not go on."""
    up: list[bool] = []

    async def waiting() -> None:
        await _wait(parents, namespace, gang, kubeconfig)
        up.append(True)

    run_until_stopped(waiting)
    return bool(up)


def parent_of(text: str) -> Parent:
    clique, _, number = text.rpartition(":")
    if not clique or not number.isdecimal():
        raise ValueError(f"--podcliques: found {text!r}, expected NAME:MIN")
    return Parent(clique, int(number))


def missing(parents: Iterable[Parent], pods: Iterable[Pod]) -> list[str]:
    """What is still waited for; empty when all parents are up."""
    ready = Counter(pod.metadata.labels.get(PODCLIQUE, "") for pod in pods if is_ready(pod) and not is_gone(pod))
    return [
        f"{parent.clique} {ready[parent.clique]}/{parent.at_least}"
        for parent in parents
        if ready[parent.clique] < parent.at_least
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error


async def _wait(parents: list[Parent], namespace: str, gang: str, kubeconfig: Path | None) -> None:
    async with cluster_client(kubeconfig) as client:
        caches = SharedCaches(client, OwnWrites(), system_dice())
        selection = Selection(path_of(PODS), namespace, f"{PODGANG}={gang}")
        pods: Cache[Pod] = caches.cache(selection, Pod)
        watching = asyncio.create_task(caches.run(), name="pods")
        try:
            await _until_up(parents, pods)
        finally:
            watching.cancel()
            await asyncio.wait([watching])


async def _until_up(parents: list[Parent], pods: Cache[Pod]) -> None:
    changed = asyncio.Event()

    def note_change(_change: Any) -> None:
        changed.set()

    pods.subscribe(note_change)
    await pods.wait_synced()
    shown: list[str] = []
    while left := missing(parents, pods):
        if left != shown:
            click.echo(f"waiting for {', '.join(left)}", err=True)
            shown = left
        await changed.wait()
        changed.clear()


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
    from spinney.cli.commands.initc import wait

    raise SystemExit(wait(podcliques, pod_info, kubeconfig))
