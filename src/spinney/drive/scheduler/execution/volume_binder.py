"""Volumes before binds: claims that wait for their first consumer learn of the node, and nobody is bound without them.

Whoever finds the record goes on from what the claims say. Never binds, and never takes a claim from a volume it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from spinney.api.builtin.pod import Pod
from spinney.api.labels import PVC_SELECTED_NODE
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.plan import Assignment, Plan
from spinney.core.scheduling.storage.volume_binding import SelectedNode, bind_volumes, has_claims, unselected
from spinney.core.scheduling.storage.volumes import claims_of
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, Outcome, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.scheduler.caches import CLAIMS, SchedulerCaches
from spinney.drive.scheduler.execution.write_confirmation import WriteConfirmation


@dataclass(frozen=True, slots=True)
class VolumeBindingResult:
    """`ready`: binds may begin. `failed`: something could not be written now. `lost`: pods that cannot stay."""

    ready: bool = True
    failed: bool = False
    lost: frozenset[str] = frozenset()


class VolumeBinder:
    """Over the claims of one cluster."""

    def __init__(
        self, door: Door, write_confirmation: WriteConfirmation, views: SchedulerCaches, cluster: Cluster
    ) -> None:
        self._door = door
        self._write_confirmation = write_confirmation
        self._views = views
        self._cluster = cluster
        self._marked: dict[str, str] = {}  # what claims were told, by uid

    async def prepare(self, plan: Plan, pods: Iterable[Pod]) -> VolumeBindingResult:
        """What is to be done before the pods of a plan, those without a node, may be bound."""
        concerned = [pod for pod in pods if has_claims(pod)]
        if not concerned:
            return VolumeBindingResult()
        if not all(self._views.is_seen(self._views.claims, key) for key in _claims(concerned)):
            return VolumeBindingResult(ready=False)
        inventory = self._cluster.inventory
        assignments = [(pod, inventory.find(assignment.node)) for pod, assignment in _seated(plan, concerned)]
        away = frozenset(pod.metadata.uid for pod, slot in assignments if slot is None)
        found = bind_volumes(
            [(pod, inventory.node(slot)) for pod, slot in assignments if slot is not None], self._views.volume_lookups
        )
        turned_down = {mark.claim.metadata.name for mark in found.marks if self._is_known(mark)}
        away |= {pod.metadata.uid for pod in concerned if turned_down.intersection(claims_of(pod))}
        if found.lost or away:
            return VolumeBindingResult(ready=False, lost=found.lost | away)
        failed = not await self._write(found.marks)
        if not found.awaited:
            self._forget(concerned)
        return VolumeBindingResult(ready=not failed and not found.awaited, failed=failed)

    async def undo(self, plan: Plan, pods: Iterable[Pod]) -> bool:
        """Claims of pods that give their seats up may go elsewhere; whether that is written."""
        concerned = [pod for pod in pods if has_claims(pod)]
        self._forget(concerned)
        assignments = [(pod, assignment.node) for pod, assignment in _seated(plan, concerned)]
        return await self._write(unselected(assignments, self._views.volume_lookups))

    def _forget(self, pods: Iterable[Pod]) -> None:
        for key in _claims(pods):
            self._marked.pop(self._views.claims.uid_of(key), None)

    def _is_known(self, mark: SelectedNode) -> bool:
        """Whether the claim was told so before: whoever makes volumes has turned the node down."""
        return self._marked.get(mark.claim.metadata.uid) == mark.node

    async def _write(self, marks: Iterable[SelectedNode]) -> bool:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._mark(mark)) for mark in marks]
        outcomes = [task.result() for task in tasks]
        if any(isinstance(outcome, Unknown) for outcome in outcomes):
            await self._write_confirmation.confirm_writes()
        return all(isinstance(outcome, (Written, Gone)) for outcome in outcomes)

    async def _mark(self, mark: SelectedNode) -> Outcome:
        metadata = mark.claim.metadata
        self._marked.pop(metadata.uid, None)
        patch = {"metadata": {"annotations": {PVC_SELECTED_NODE: mark.node}}}
        given = Precondition(metadata.uid, metadata.resource_version)
        outcome = await self._door.merge_patch(CLAIMS.ref(metadata.name, metadata.namespace), patch, given)
        if isinstance(outcome, Written) and mark.node is not None:
            self._marked[metadata.uid] = mark.node
        return outcome


def _claims(pods: Iterable[Pod]) -> set[tuple[str, str]]:
    return {(pod.metadata.namespace, name) for pod in pods for name in claims_of(pod)}


def _seated(plan: Plan, pods: Iterable[Pod]) -> list[tuple[Pod, Assignment]]:
    assignments = {assignment.uid: assignment for assignment in plan.assignments}
    return [(pod, assignments[pod.metadata.uid]) for pod in pods if pod.metadata.uid in assignments]
