"""What programs import: `from spinney import place, plan, explain`. Values in, values out, as the commands.

Never prints, never ends the process and never writes to a cluster. Each call runs to its end in the calling thread:
inside of an event loop, call it in a thread of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from spinney.api.documents import read_bounded
from spinney.api.placement.problem import Problem
from spinney.api.placement.reading import PROBLEM, Unreadable, decode_text, line_of, read_problem
from spinney.api.placement.result import Result
from spinney.core.placement.engine import place as place_problem
from spinney.core.view.explanation import WorkloadExplanation
from spinney.core.view.plan_result import PlanResult
from spinney.drive.client.config.kubeconfig import cluster_client
from spinney.drive.client.errors import ClientError
from spinney.drive.operator.startup import StartupFailed
from spinney.whatif.inputs.manifests import Manifest, ManifestError, check_manifests, parse_manifests, read_manifests
from spinney.whatif.inputs.nodes import load_nodes
from spinney.whatif.inputs.operator_settings import read_configuration
from spinney.whatif.inputs.snapshot import described, read_snapshot
from spinney.whatif.request import AS_MANY_AS_FIT, PlanRequest, prepare_plan
from spinney.whatif.workloads import WorkloadNotFound, read_explanation

__all__ = ["ClientError", "PlanResult", "Result", "WorkloadExplanation", "WorkloadNotFound", "explain", "place", "plan"]

Json = Mapping[str, Any]


def place(problem: Problem | Json | str | Path) -> Result:
    """Place the gangs of a problem on its nodes; the answer has one decision for each gang, in their order.

    `problem` is in the exchange format: a file (a Path), its text, or its values. The same problem always gets the same
    answer. Raises ValueError with line or field for what is no problem.
    """
    if isinstance(problem, Problem):
        return place_problem(problem)
    if isinstance(problem, Path):
        return place_problem(_problem(_content(problem), str(problem)))
    return place_problem(_problem(problem.encode(), "the text") if isinstance(problem, str) else read_problem(problem))


def plan(
    manifests: Sequence[Json] | str | Path,
    *,
    nodes: str | Path | None = None,
    kubeconfig: Path | None = None,
    copies: int | Literal["max"] = 1,
    namespace: str = "default",
    config: Path | None = None,
) -> PlanResult:
    """Say whether workloads would fit, where, and if not, why and what would fit.

    `manifests`: a file or directory (a Path), a text, or objects. `nodes`: the cluster that this file or text
    describes; without it the cluster of `kubeconfig`, found as by kubectl, is read. `copies`: so many of everything,
    one after the other, or as many as fit. `namespace`: of manifests that name none. `config`: the operator's
    configuration file.

    Raises ValueError for input that can not be used, and ClientError if the cluster can not be read.
    """
    if nodes is not None and kubeconfig is not None:
        raise ValueError("nodes and kubeconfig exclude each other: one cluster is asked about")
    if copies != "max" and copies < 1:
        raise ValueError(f"copies: found {copies}, expected max or a number from 1")
    number = AS_MANY_AS_FIT if copies == "max" else copies
    request = PlanRequest(_manifests(manifests), number, namespace, read_configuration(config))
    try:
        return asyncio.run(_plan(request, nodes, kubeconfig))
    except StartupFailed as error:  # a back-end that the configuration names cannot be used
        raise ValueError(f"{config}: {error}") from error


def explain(workload: str, *, kind: str = "", kubeconfig: Path | None = None) -> WorkloadExplanation:
    """Say why a workload waits, or where it runs and how well it is placed.

    `workload` is NAMESPACE/NAME of a PodCliqueSet, Job or any other owner of pods, or of a pod; `kind` chooses where
    several have that name. Raises WorkloadNotFound if there is none or it has no gang yet, ValueError for another form
    of name, and ClientError if the cluster can not be read.
    """
    namespace, slash, name = workload.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise ValueError(f"workload: found {workload!r}, expected NAMESPACE/NAME")
    return asyncio.run(_explain(namespace, name, kind, kubeconfig))


async def _plan(request: PlanRequest, nodes: str | Path | None, kubeconfig: Path | None) -> PlanResult:
    if nodes is not None:
        against = str(nodes) if isinstance(nodes, Path) else "the described nodes"
        snapshot = described(load_nodes(nodes), request.configuration, against)
        return (await prepare_plan(request, snapshot, now_s=time.time())).answer()
    async with cluster_client(kubeconfig) as client:
        return (await prepare_plan(request, await read_snapshot(client), client)).answer()


async def _explain(namespace: str, name: str, kind: str, kubeconfig: Path | None) -> WorkloadExplanation:
    async with cluster_client(kubeconfig) as client:
        return await read_explanation(client, namespace, name, kind)


def _manifests(given: Sequence[Json] | str | Path) -> list[Manifest]:
    if isinstance(given, Path):
        found = read_manifests((given,))
    elif isinstance(given, str):
        found = parse_manifests(given, "the text")
    else:
        found = check_manifests(given, "the objects")
    if not found:
        raise ManifestError(f"{given if isinstance(given, Path) else 'manifests'}: found no manifest, expected one")
    return found


def _problem(body: bytes, where: str) -> Problem:
    try:
        return read_problem(decode_text(body))
    except Unreadable as error:
        line = error.line or (line_of(body, error.path) if error.path else None)
        raise ValueError(f"{where}:{line}: {error}" if line else f"{where}: {error}") from error


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return read_bounded(stream, str(path), PROBLEM)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}") from error
