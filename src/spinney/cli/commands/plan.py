"""`spinney plan`: would this fit, where, and if not, why and what would; how many copies.

Asks a copy of the cluster. Never writes to it: rights to list and get are enough.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spinney.cli.options import (
    NO,
    UNREADABLE,
    chosen_context,
    config_option,
    elapsed,
    kubeconfig_option,
    left_out,
    manifests_option,
    output_option,
    print_structured,
    screen,
    stop,
)

if TYPE_CHECKING:
    from spinney.core.view.plan_result import PlanResult
    from spinney.whatif.request import PlanRequest

_MOST_COPIES = 10_000
_MANY_OBJECTS = 100_000


class _Copies(click.ParamType[int]):
    """A number, or `max`."""

    name = "N|max"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "max":
            return 0
        if not (str(value).isdecimal() and 1 <= int(str(value)) <= _MOST_COPIES):
            self.fail(f"found {value!r}, expected max or a number from 1 to {_MOST_COPIES}", param, ctx)
        return int(str(value))


def _namespace(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from kube_apimachinery.name_validation import dns_label

    if complaints := dns_label(value):
        raise click.BadParameter(f"found {value!r}, expected the name of a namespace: {complaints[0]}", ctx, param)
    return value


@click.command(
    epilog="""\b
Examples:
  spinney plan -f llm.yaml
  spinney plan -f llm.yaml --nodes cluster.yaml --copies max
  spinney plan -f queue.yaml -f train-job.yaml -n research
  helm template chart | spinney plan -f - -o json | jq .fits

\b
Manifests may be PodCliqueSets, DynamoGraphDeployments, Jobs and other owners of
pods, pods, and PodGroups with their pods. Nodes, ClusterTopologies, Queues,
PriorityClasses, budgets and volumes among them count as being in the cluster.
A workload that exists keeps what it has: only what it lacks is asked for.
Exit status: 0 everything fits, 1 something does not fit or is refused,
2 usage, files, or a cluster that cannot be read. Needed: to list nodes, pods,
podgroups, queues, topologies, clustertopologies, clustertopologybindings and
priorityclasses, and to get and list what is planned; nothing is written.
""",
)
@manifests_option
@click.option(
    "--nodes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ask about the cluster that this file describes, as for `spinney up`, instead of a live one.",
)
@kubeconfig_option
@click.option(
    "--copies",
    type=_Copies(),
    default="1",
    metavar="N|max",
    help="Place the manifests so often, one copy after the other; max: until one does not fit.",
)
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    callback=_namespace,
    help="Of manifests that name none.",
)
@config_option
@output_option
def plan(
    manifests: tuple[Path, ...],
    nodes: Path | None,
    kubeconfig: Path | None,
    copies: int,
    namespace: str,
    config: Path | None,
    output: str,
) -> None:
    """Say whether workloads would fit, where they would go, and if not, why and what would fit.

    Admission, expansion and placement are those of the real thing, on a copy of the cluster.
    """
    if nodes is not None and kubeconfig is not None:
        raise click.UsageError("--nodes and --kubeconfig exclude each other: one cluster is asked about")
    with _rarely_collecting(), elapsed("planning"):
        result = _result(manifests, nodes, kubeconfig, copies, namespace, config)
    if output == "table":
        from spinney.cli.render.plan import shown

        here = screen()
        click.echo(shown(result, here), nl=False, color=here.color)
    else:
        print_structured(result.to_json(), output)
    if not result.fits:
        raise SystemExit(NO)


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """A short life with thousands of lasting objects: looking for garbage among them costs and finds nothing."""
    before = gc.get_threshold()
    gc.set_threshold(_MANY_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _result(
    manifests: tuple[Path, ...],
    nodes: Path | None,
    kubeconfig: Path | None,
    copies: int,
    namespace: str,
    config: Path | None,
) -> PlanResult:
    import asyncio

    from spinney.drive.client.errors import ClientError
    from spinney.whatif.inputs.manifests import ManifestError, read_manifests

    try:
        given = read_manifests(manifests)
        if not given:
            raise ManifestError(f"{', '.join(map(str, manifests))}: found no manifest, expected at least one")

        def question() -> PlanRequest:
            from spinney.drive.operator.startup import StartupFailed
            from spinney.whatif.inputs.operator_settings import read_configuration
            from spinney.whatif.request import PlanRequest

            try:
                return PlanRequest(given, copies, namespace, read_configuration(config))
            except StartupFailed as error:
                raise ManifestError(f"{config}: {error}") from None

        if nodes is not None:
            return asyncio.run(_described(question(), nodes))
        return asyncio.run(_live(question, kubeconfig))
    except (ClientError, OSError, ValueError) as error:
        stop("plan", str(error), UNREADABLE)


async def _described(question: PlanRequest, nodes: Path) -> PlanResult:
    from spinney.whatif.inputs.nodes import load_nodes
    from spinney.whatif.inputs.snapshot import described
    from spinney.whatif.request import prepare_plan

    snapshot = described(load_nodes(nodes), question.configuration, str(nodes))
    return (await prepare_plan(question, snapshot)).answer()


async def _live(question: Callable[[], PlanRequest], kubeconfig: Path | None) -> PlanResult:
    """What the answer needs is loaded while the cluster is being read."""
    import asyncio

    from spinney.drive.client.config.kubeconfig import cluster_client
    from spinney.whatif.inputs.snapshot import read_snapshot

    try:
        async with cluster_client(kubeconfig, left_out("plan"), chosen_context()) as client:
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(read_snapshot(client))
                loading = group.create_task(asyncio.to_thread(question))
            from spinney.whatif.request import prepare_plan

            placing = await prepare_plan(loading.result(), reading.result(), client)
    except* Exception as errors:
        raise errors.exceptions[0] from None
    return placing.answer()
