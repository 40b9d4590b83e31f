"""The demonstration: a stack in this process, seven steps on it, each with what it claims and the check of it.

Leaves nothing behind unless it was asked to: without a wish to keep it, even its kubeconfig is a temporary one. What it
applies is in `demo_files`, also under examples/demo.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import sys
import tempfile
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import click

from kube_apimachinery.system_clock import system_dice
from spinney.api.builtin.node import Node
from spinney.api.builtin.pod import Pod
from spinney.api.documents import read_documents
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.options import NO, UNREADABLE, Screen, screen
from spinney.cli.render.columns import plain
from spinney.cli.render.topology_tree import RowSelection, shown
from spinney.cli.topology_sources import Needs, TopologyInputs, read_cluster
from spinney.cli.wiring.api_servers import ApiServer, StackOptions, embedded
from spinney.cli.wiring.process import causes, log_to_stderr, on_signal, run_until_stopped
from spinney.cli.wiring.stack import running_roles
from spinney.core.placement.explain.reasons import enumerated, many
from spinney.core.view.explanation import GangExplanation, Member, WorkloadExplanation
from spinney.core.view.topology_index import view_of
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ClientError
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import ResourcePath
from spinney.drive.scheduler.caches import NODES, PODGROUPS, PODS
from spinney.whatif.inputs.manifests import apply_all, manifests_of
from spinney.whatif.inputs.nodes import parse_nodes
from spinney.whatif.inputs.operator_settings import (
    ConfigurationError,
    admission_of,
    dynamo_admission_of,
    read_configuration,
)
from spinney.whatif.workloads import WorkloadNotFound, read_explanation


def text_of(name: str) -> str:
    return resources.files("spinney.cli").joinpath("demo_files", f"{name}.yaml").read_text(encoding="utf-8")


def manifests(name: str) -> list[dict[str, Any]]:
    """The objects of a file; nodes are expanded from their description."""
    if name == "nodes":
        return parse_nodes(text_of(name), "nodes")
    return read_documents(text_of(name), name)


T = TypeVar("T")
NAMESPACE = "default"
TIMEOUT_S = 25.0
_POLL_S = 0.1
_GROUPS = ResourcePath(
    PodCliqueScalingGroup.GROUP, PodCliqueScalingGroup.VERSION, PodCliqueScalingGroup.PLURAL, namespaced=True
)


class DemoCluster:
    def __init__(self, transport: Transport) -> None:
        self._client = ApiClient(transport, system_dice())
        self._door = Door(transport, system_dice(), field_manager="spinney-demo")
        self._labels: dict[str, Mapping[str, str]] = {}

    async def apply(self, name: str) -> None:
        await apply_all(self._client, self._door, manifests_of(manifests(name), f"{name}.yaml"))

    async def scale(self, scaling_group: str, replicas: int) -> None:
        """By the scale subresource, as kubectl does."""
        written(await self._door.scale(_GROUPS.ref(scaling_group, NAMESPACE), replicas, ANY))

    async def explained(self, name: str, kind: str) -> WorkloadExplanation | None:
        """What `spinney explain` would tell; None: there is nothing to tell yet."""
        try:
            return await read_explanation(self._client, NAMESPACE, name, kind)
        except WorkloadNotFound:
            return None

    async def status_of(self, gang: str) -> str:
        """What the PodGroup of a gang says in its status; empty: nothing."""
        group = await self._client.get(PODGROUPS.ref(gang, NAMESPACE), PodGroup)
        return next((condition.message for condition in reversed(group.status.scheduling_conditions)), "")

    async def running(self) -> set[str]:
        """Pods whose containers run."""
        pods = (await self._client.list(Selection(PODS, NAMESPACE), Pod)).items
        return {pod.metadata.name for pod in pods if pod.status.phase == "Running"}

    async def domains(self, members: Iterable[Member], key: str) -> set[str]:
        """Values of a label of the nodes that they run on."""
        if not self._labels:
            nodes = (await self._client.list(Selection(NODES), Node)).items
            self._labels = {node.metadata.name: node.metadata.labels for node in nodes}
        return {self._labels[member.node].get(key, "") for member in members}

    async def topology_inputs(self) -> TopologyInputs:
        return await read_cluster(self._client, TopologyInputs(), Needs(pods=True))


async def wait_until(find: Callable[[], Awaitable[T | None]]) -> T | None:
    """What a look finds, repeated until it finds something; None: it took too long."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while (found := await find()) is None:  # noqa: ASYNC110 - several kinds are looked at, of which none tells
                await asyncio.sleep(_POLL_S)
            return found
    except TimeoutError:
        return None


BLOCK, RACK, HOST = "h100.example.com/block", "h100.example.com/rack", "kubernetes.io/hostname"
GB_BLOCK, CLIQUE = "gb200.example.com/block", "nvidia.com/gpu.clique"
_INDENT = " " * 6
_CHAT, _SCALED = 8, 16
_INSTANCE = re.compile(r"-(prefill|decode)-(\d+)-")

Facts = Sequence[str]
Step = Callable[[DemoCluster], Awaitable[Facts]]


class DemoFailed(Exception):
    """Something is not as it should be; the sentence says what."""


async def perform(cluster: DemoCluster, screen: Screen, started_s: float) -> None:
    """All steps in order, then the picture. Raises DemoFailed."""
    for number, (title, step) in enumerate(STEPS, start=1):
        _print(f"[{number}/{len(STEPS)}] {title}", screen, bold=True)
        for fact in await step(cluster):
            for line in textwrap.wrap(plain(fact), screen.width - len(_INDENT), break_on_hyphens=False):
                _print(f"{_INDENT}{line}", screen)
    _print("", screen)
    found = await cluster.topology_inputs()
    view = view_of(found.nodes, found.pods, found.groups, found.topologies or (), found.cluster_topologies)
    trees = [tree for tree in view.trees if tree.root.nodes]
    click.echo(shown(view, trees, RowSelection(), screen), color=screen.color)
    _print(f"Everything above was checked, in {time.monotonic() - started_s:.1f} s.", screen)


async def _cluster(cluster: DemoCluster) -> Facts:
    await cluster.apply("topologies")
    found = await cluster.topology_inputs()
    view = view_of(found.nodes, cluster_topologies=found.cluster_topologies)
    facts = []
    for tree in view.trees:
        if tree.name not in ("h100", "gb200"):
            continue
        counts = [many(sum(1 for _ in tree.root.at(at)), level.name) for at, level in enumerate(tree.levels, start=1)]
        facts.append(f"{tree.name}: {enumerated(counts)}, {tree.room(tree.root).capacity} GPUs")
    _check(len(facts) == 2, "topologies h100 and gb200 were applied and are not there")
    return facts


async def _inference(cluster: DemoCluster) -> Facts:
    await cluster.apply("chat")
    explained = await _placed(cluster, "chat", "PodCliqueSet", _CHAT)
    members = _members(explained)
    block = await _one(cluster, members, BLOCK, "the pods of chat")
    facts = [f"{many(len(members), 'pod')} run in block {block}"]
    for name, instance in _instances(members).items():
        facts.append(f"{name}: {many(len(instance), 'pod')} in rack {await _one(cluster, instance, RACK, name)}")
    routers = [member for member in members if "router" in member.group]
    facts.append(f"routers: {many(len(routers), 'pod')} on host {await _one(cluster, routers, HOST, 'the routers')}")
    return facts


async def _dynamo(cluster: DemoCluster) -> Facts:
    await cluster.apply("assistant")
    members = _members(await _placed(cluster, "assistant", "DynamoGraphDeployment", 5))
    block = await _one(cluster, members, GB_BLOCK, "the pods of assistant")
    decode = [member for member in members if "decode" in member.group]
    rack = await _one(cluster, decode, CLIQUE, "the decode worker")
    return [
        f"{many(len(members), 'pod')} run in block {block}",
        f"the decode worker, {many(len(decode), 'pod')} on as many nodes, is in NVLink rack {rack}",
    ]


async def _job(cluster: DemoCluster) -> Facts:
    await cluster.apply("finetune")
    members = _members(await _placed(cluster, "finetune", "Job", 4))
    rack = await _one(cluster, members, RACK, "the pods of finetune")
    return [f"{many(len(members), 'pod')} run in rack {rack}"]


async def _misfit(cluster: DemoCluster) -> Facts:
    await cluster.apply("giant")

    async def refused() -> GangExplanation | None:
        """The explanation, when the status of the gang has the same words."""
        explained = await cluster.explained("giant", "PodCliqueSet")
        gang = next((gang for gang in explained.gangs if gang.explanation), None) if explained is not None else None
        return gang if gang is not None and await cluster.status_of("giant-0") == "\n".join(gang.lines) else None

    gang = await wait_until(refused)
    if gang is None:
        raise DemoFailed("giant cannot fit, and its status and its story do not say why in the same words")
    bound = sum(bool(member.node) for member in gang.members)
    _check(bound == 0, f"giant cannot fit as a whole, and {many(bound, 'pod')} of it have a node")
    fits = [line for line in gang.lines if line.startswith("It would fit")]
    _check(bool(fits), f"giant waits, and it was not said what would fit: {' '.join(gang.lines)}")
    return [line for line in gang.lines if not line.startswith("node-group ")]


async def _scale_out(cluster: DemoCluster) -> Facts:
    before = _members(await _placed(cluster, "chat", "PodCliqueSet", _CHAT))
    home = await _one(cluster, before, BLOCK, "the pods of chat")
    await cluster.scale("chat-0-prefill", 3)
    members = _members(await _placed(cluster, "chat", "PodCliqueSet", _SCALED))
    block = await _one(cluster, members, BLOCK, "the pods of chat after its scale-out")
    _check(block == home, f"chat was in block {home} and is in block {block} after its scale-out")
    known = {member.name for member in before}
    fresh = [member for member in members if member.name not in known]
    _check(len(fresh) == _SCALED - _CHAT, f"{len(before) - len(known & {m.name for m in members})} pods were replaced")
    facts = [f"{many(len(fresh), 'pod')} more, all in block {block}"]
    for name, instance in _instances(fresh).items():
        facts.append(f"{name}: {many(len(instance), 'pod')} in rack {await _one(cluster, instance, RACK, name)}")
    return facts


async def _still(cluster: DemoCluster) -> Facts:
    """Nobody was moved or stopped for anybody else."""
    total = 0
    for name, kind, pods in (
        ("chat", "PodCliqueSet", _SCALED),
        ("assistant", "DynamoGraphDeployment", 5),
        ("finetune", "Job", 4),
    ):
        total += len(_members(await _placed(cluster, name, kind, pods)))
    return [f"{total} pods run, giant waits"]


STEPS: tuple[tuple[str, Step], ...] = (
    ("A mixed cluster: H100 with three levels, GB200 with four", _cluster),
    ("Disaggregated inference, packed by block, rack and host: PodCliqueSet chat", _inference),
    ("The same on GB200: DynamoGraphDeployment assistant", _dynamo),
    ("A Job that asks for one rack by annotation: finetune", _job),
    ("Five nodes' worth of pods in a rack of four nodes: PodCliqueSet giant", _misfit),
    ("Scale prefill of chat from one instance to three", _scale_out),
    ("Where everything is", _still),
)


async def _placed(cluster: DemoCluster, name: str, kind: str, pods: int) -> WorkloadExplanation:
    """The explanation of a workload when all its pods run on nodes."""
    last: list[str] = ["it has no gang"]

    async def find() -> WorkloadExplanation | None:
        explained = await cluster.explained(name, kind)
        if explained is None:
            return None
        members, running = _members(explained), await cluster.running()
        waits = [line for gang in explained.gangs if gang.waits for line in gang.lines]
        count = sum(member.name in running for member in members)
        last[0] = " ".join(waits) or f"{count} of {pods} pods run"
        is_there = len(members) == pods == count and all(member.node for member in members)
        return explained if is_there else None

    found = await wait_until(find)
    if found is None:
        raise DemoFailed(f"{kind} {name} does not run: {last[0]}")
    return found


def _members(explained: WorkloadExplanation) -> list[Member]:
    return [member for gang in explained.gangs for member in gang.members]


def _instances(members: Iterable[Member]) -> dict[str, list[Member]]:
    """Members of scaling groups by instance: prefill 0, prefill 1, decode 0."""
    found: dict[str, list[Member]] = {}
    for member in members:
        match = _INSTANCE.search(member.group)
        if match is not None:
            found.setdefault(f"{match[1]} {match[2]}", []).append(member)
    return dict(sorted(found.items()))


async def _one(cluster: DemoCluster, members: Sequence[Member], key: str, who: str) -> str:
    """The domain that all are in."""
    found = await cluster.domains(members, key)
    _check(len(found) == 1, f"{who} should share one {key} and are in {enumerated(sorted(found)) or 'none'}")
    return found.pop()


def _check(is_true: bool, otherwise: str) -> None:
    if not is_true:
        raise DemoFailed(otherwise)


def _print(line: str, screen: Screen, *, bold: bool = False) -> None:
    click.echo(click.style(line, bold=True) if bold and screen.color else line, color=screen.color)
    sys.stdout.flush()


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
            run_until_stopped(lambda: _demonstrated(options, keep, ending))
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
        cluster = DemoCluster(api.transport)
        try:
            await perform(cluster, screen(), started)
        except (DemoFailed, ClientError) as error:
            click.echo(f"spinney demo: {error}", err=True)
            ending.status = NO
            return
        ending.status = OK
        if keep:
            await _kept(api, options, configuration)


async def _kept(api: ApiServer, options: StackOptions, configuration: OperatorConfiguration) -> None:
    from spinney.cli.wiring.roles.dashboard import dashboard
    from spinney.cli.wiring.roles.registry import DashboardOptions

    async with dashboard(api.as_role("dashboard"), DashboardOptions(_LOOPBACK, None), configuration) as page:
        click.echo(f"\nIt keeps running. In another terminal:\n  export KUBECONFIG={options.kubeconfig.resolve()}")
        click.echo("  kubectl get pcs,dgd,jobs,pods -o wide\n  kubectl describe podgroup giant-0")
        click.echo("  spinney explain default/giant\n  spinney topology show --gang default/chat-0")
        click.echo(f"In the browser: {page}\nCtrl-C stops it")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()
