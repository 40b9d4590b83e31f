"""A what-if from manifests to an answer: admission, what controllers would make of them, and where that would go.

All of it by the code that controllers run, on a copy. Never writes to a cluster (INV13).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from spinney.api.changes import Create, Json, SetStatus
from spinney.api.documents import PAGE
from spinney.api.dynamo_conversion import BETA, ConversionError, convert
from spinney.api.kinds.dynamographdeployment import DynamoGraphDeployment
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import DYNAMO_KAI_QUEUE, SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.core.admission.settings import settings_of as admission_settings_of
from spinney.core.expansion.dynamo import generated_labels
from spinney.core.expansion.dynamo.deployment import expand
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.multinode import Observed
from spinney.core.expansion.dynamo.roles import replicas_of
from spinney.core.expansion.objects import PODCLIQUESETS
from spinney.core.scheduling.settings import Settings as SchedulerSettings
from spinney.core.view.plan_result import PlanResult
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import Forbidden, NotFound
from spinney.drive.client.paths import ResourcePath
from spinney.drive.operator.settings_from_config import capabilities_of, settings_of
from spinney.whatif.context import existing, existing_set, is_cluster_object, is_namespaced, waiting_of_set
from spinney.whatif.expected.expected_pods import MOST_PODS, Registry
from spinney.whatif.expected.podcliqueset import ExistingSet
from spinney.whatif.expected.workloads import KINDS
from spinney.whatif.inputs.manifests import Manifest, ManifestError, parse_manifests
from spinney.whatif.inputs.operator_settings import dynamo_settings_of, read_configuration, strategy_of
from spinney.whatif.inputs.snapshot import ClusterReader, Snapshot, read_snapshot
from spinney.whatif.run import AS_MANY_AS_FIT, PlanRun, Workload
from spinney.whatif.validation import ValidationResult, Validator, refusals


def podcliqueset_of(graph: Json, settings: DynamoSettings, has_queue: bool, now_s: float) -> Json | str:
    """The PodCliqueSet, or a text that says why there is none."""
    try:
        newest = convert(graph, BETA)
    except ConversionError as error:
        raise ManifestError(str(error)) from error
    newest["metadata"].setdefault("creationTimestamp", None)
    expansion = expand(newest, Observed(settings, now_s, queue_exists=has_queue))
    for change in expansion.changes:
        if isinstance(change, Create) and change.target.resource == PODCLIQUESETS:
            return change.body
    statuses = [change.status for change in expansion.changes if isinstance(change, SetStatus)]
    messages = [
        one["message"] for status in statuses for one in status.get("conditions", ()) if one["status"] == "False"
    ]
    return messages[0] if messages else "no PodCliqueSet follows from it"


def replicas_asked(graph: Json) -> dict[str, int]:
    """Replicas of its cliques and groups, by name: a deployment scales them to the requested number, also to zero."""
    newest = convert(graph, BETA)
    components = newest["spec"].get("components") or []
    name = generated_labels.podcliqueset(newest["metadata"]["name"], components)
    return {generated_labels.child(name, one["name"]): replicas_of(one) for one in components}


def queue_named(graph: Json) -> str:
    """The queue that a deployment names; empty: the default queue."""
    annotations = graph["metadata"].get("annotations") or {}
    return str(annotations.get(DYNAMO_KAI_QUEUE, "")).strip()


__all__ = ["AS_MANY_AS_FIT", "PlanRequest", "PlanText", "planner", "prepare_plan"]

MOST_PODS_OF_A_PAGE = 2_000
"""A page answers others as well while it plans."""

PlanText = Callable[[str], Awaitable[PlanResult]]

_NAMES = frozenset({SCHEDULER_KAI, SCHEDULER_DEFAULT})
_GROVE = (PodCliqueSet.GROUP, PodCliqueSet.KIND)
_GRAPH = (DynamoGraphDeployment.GROUP, DynamoGraphDeployment.KIND)
_PLANNABLE = "a PodCliqueSet, DynamoGraphDeployment, PodGroup, Pod, Job or another owner of pods"
_FEW = 4
_NAMESPACES = ResourcePath("", "v1", "namespaces", namespaced=False)
_PODGROUP = (PodGroup.GROUP, PodGroup.KIND)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """`copies`: how often all workloads are asked for. `namespace`: of manifests that name none.

    `most_pods`: of all copies together; what asks for more is refused.
    """

    manifests: Sequence[Manifest]
    copies: int = 1
    namespace: str = "default"
    configuration: OperatorConfiguration = field(default_factory=lambda: read_configuration(None))
    scheduler: SchedulerSettings = field(default_factory=lambda: SchedulerSettings(names=_NAMES))
    most_pods: int = MOST_PODS


def planner(client: ApiClient, configuration: OperatorConfiguration | None = None) -> PlanText:
    """Answers about a text of manifests, over a cluster that is read anew for each; placing works in a thread.

    Raises ManifestError for what is no manifest, ClientError where the cluster cannot be read.
    """
    configuration = configuration or read_configuration(None)

    async def plan_text(text: str) -> PlanResult:
        manifests = parse_manifests(text, "the text", PAGE)
        if not manifests:
            raise ManifestError("the text: found no manifest, expected at least one")
        question = PlanRequest(manifests, configuration=configuration, most_pods=MOST_PODS_OF_A_PAGE)
        placing = await prepare_plan(question, await read_snapshot(client), client)
        return await asyncio.to_thread(placing.answer)

    return plan_text


async def prepare_plan(
    question: PlanRequest, snapshot: Snapshot, client: ApiClient | None = None, now_s: float | None = None
) -> PlanRun:
    """Everything that has to be read for an answer; `answer` then works it out. `client` None: a described cluster."""
    return await _RequestPreparation(question, snapshot, client, time.time() if now_s is None else now_s).prepare()


class _RequestPreparation:
    def __init__(self, question: PlanRequest, snapshot: Snapshot, client: ApiClient | None, now_s: float) -> None:
        self._question = question
        self._snapshot = snapshot
        self._client = client
        self._now_s = now_s
        self._reader = ClusterReader(client) if client is not None else None
        self._registry = Registry(question.most_pods)
        configuration = question.configuration
        self._validator = Validator(
            admission_settings_of(configuration, capabilities=capabilities_of(configuration)), self._reader
        )
        if client is None:
            self._validator.know_default(configuration)
        self._queues = {queue.metadata.name for queue in snapshot.queues}

    async def prepare(self) -> PlanRun:
        """What others refer to first; every manifest is judged before anything is placed."""
        question = self._question
        manifests = sorted(map(self._placed, question.manifests), key=lambda one: not is_cluster_object(one))
        world: list[tuple[Manifest, Json]] = []
        workloads: list[Workload] = []
        ignored: list[str] = []
        for manifest in manifests:
            judgement = await self._validator.judge(manifest)
            body = judgement.admitted if judgement.judged else manifest.content
            if body is None:
                workloads.append(_refused(judgement))
            elif is_cluster_object(manifest):
                world.append((manifest, body))
                if manifest.kind == "Queue":
                    self._queues.add(manifest.name)
            elif (made := await self._workload(manifest, body, judgement)) is not None:
                workloads.append(made)
            else:
                ignored.append(f"{manifest.kind} {manifest.name}")
        if not workloads:
            raise ManifestError(f"{_listed(question.manifests)}: found nothing to plan, expected {_PLANNABLE}")
        missing = await self._missing_namespaces(workloads)
        return PlanRun(
            replace(self._snapshot, notes=(*self._snapshot.notes, *missing)),
            tuple(world),
            tuple(workloads),
            settings_of(question.configuration),
            replace(question.scheduler, strategy=strategy_of(question.configuration)),
            question.copies,
            self._registry,
            self._now_s,
            tuple(ignored),
        )

    async def _missing_namespaces(self, workloads: Sequence[Workload]) -> list[str]:
        """A sentence for each namespace that is neither in the cluster nor among the manifests."""
        if self._client is None:
            return []
        given = {one.name for one in self._question.manifests if one.kind == "Namespace"}
        notes = []
        for name in sorted({one.namespace for one in workloads if not one.exists and not one.refusals} - given - {""}):
            try:
                await self._client.get(_NAMESPACES.ref(name))
            except NotFound:
                notes.append(f"namespace {name} does not exist: it has to be made first")
            except Forbidden:
                continue  # who may not look at namespaces is not told about them
        return notes

    def _placed(self, manifest: Manifest) -> Manifest:
        """In the namespace it names, else in that of the question."""
        content, metadata = manifest.content, manifest.content["metadata"]
        worldly = is_cluster_object(manifest)
        if worldly and not is_namespaced(manifest.kind):
            return manifest
        namespace = metadata.get("namespace") or self._question.namespace
        return Manifest(manifest.where, {**content, "metadata": {**metadata, "namespace": namespace}})

    async def _workload(self, manifest: Manifest, body: Json, judgement: ValidationResult) -> Workload | None:
        """None: nothing that makes pods."""
        group_kind = (str(body["apiVersion"]).rpartition("/")[0], manifest.kind)
        base = _titled(manifest, judgement)
        if group_kind == _GRAPH:
            return await self._graph(manifest, body, base)
        if group_kind == _GROVE:
            uid, there = await existing_set(self._reader, self._snapshot, body)
            waiting = waiting_of_set(self._snapshot, body) if uid else {}
            return replace(base, body=_with_uid(body, uid), exists=bool(uid), there=there, waiting=waiting)
        if group_kind == _PODGROUP:
            return replace(base, body=body)
        if group_kind not in KINDS:
            return None
        if complaints := refusals(body):
            return replace(base, refusals=complaints)
        found = await existing(self._client, self._snapshot, body)
        if found is None:
            return replace(base, body=_with_uid(body, ""))
        return replace(base, body=_with_uid(body, found.uid), exists=True, existing=found, waiting=found.waiting)

    async def _graph(self, manifest: Manifest, body: Json, base: Workload) -> Workload:
        named = queue_named(body)
        configuration = self._question.configuration
        made = podcliqueset_of(
            self._registry.adopt(body),
            dynamo_settings_of(configuration),
            not named or named in self._queues,
            self._now_s,
        )
        if isinstance(made, str):
            return replace(base, refusals=(made,))
        judgement = await self._validator.judge(Manifest(manifest.where, made))
        if judgement.admitted is None:
            return replace(base, refusals=tuple(map(str, judgement.errors)))
        uid, there = await existing_set(self._reader, self._snapshot, judgement.admitted)
        there = ExistingSet(there.pods, replicas_asked(body), there.is_scheduled)
        waiting = waiting_of_set(self._snapshot, judgement.admitted) if uid else {}
        made_body = _with_uid(judgement.admitted, uid)
        return replace(base, body=made_body, exists=bool(uid), there=there, waiting=waiting)


def _listed(manifests: Sequence[Manifest]) -> str:
    named = [f"{one.content['apiVersion']} {one.kind} {one.name}" for one in manifests]
    return ", ".join(named[:_FEW]) + (f" and {len(named) - _FEW} more" if len(named) > _FEW else "")


def _titled(manifest: Manifest, judgement: ValidationResult) -> Workload:
    namespace = str(manifest.content["metadata"].get("namespace") or "")
    return Workload(manifest.kind, namespace, manifest.name, manifest.where, warnings=judgement.warnings)


def _refused(judgement: ValidationResult) -> Workload:
    refusals = tuple(map(str, judgement.errors))
    return replace(_titled(judgement.manifest, judgement), refusals=refusals)


def _with_uid(body: Json, uid: str) -> Json:
    metadata = {key: value for key, value in body["metadata"].items() if key != "uid"}
    return {**body, "metadata": {**metadata, "uid": uid} if uid else metadata}
