"""Binds volumes before pods: claims that wait for their first consumer get the selected node, and binds wait for them.

Whoever finds the record continues from the state of the claims. Never binds a pod, and never changes a claim that has a
volume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from spinney.api.builtin.pod import Pod
from spinney.api.labels import PVC_SELECTED_NODE
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.plan import Assignment, Plan
from spinney.core.scheduling.volumes import SelectedNode, bind_volumes, claims_of, has_claims, unselected
from spinney.drive.apply.outcome import Gone, Outcome, Unknown, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.scheduler.caches import CLAIMS, SchedulerCaches
from spinney.drive.scheduler.execution.api_writer import ApiWriter


@dataclass(frozen=True, slots=True)
class VolumeBindingResult:
    """`ready`: binds may begin. `failed`: a write failed for now. `lost`: pods that cannot keep their assignment."""

    ready: bool = True
    failed: bool = False
    lost: frozenset[str] = frozenset()


class VolumeBinder:
    """Works on the claims of one cluster."""

    def __init__(self, api_writer: ApiWriter, views: SchedulerCaches, cluster: Cluster) -> None:
        self._api_writer = api_writer
        self._views = views
        self._cluster = cluster
        self._marked: dict[str, str] = {}  # the node that we selected for a claim, by uid

    async def prepare(self, plan: Plan, pods: Iterable[Pod]) -> VolumeBindingResult:
        """Do what is needed before the pods of a plan that have no node may be bound."""
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
        """Remove the selected node from claims of pods that give up their assignment; whether all writes are done."""
        concerned = [pod for pod in pods if has_claims(pod)]
        self._forget(concerned)
        assignments = [(pod, assignment.node) for pod, assignment in _seated(plan, concerned)]
        return await self._write(unselected(assignments, self._views.volume_lookups))

    def _forget(self, pods: Iterable[Pod]) -> None:
        for key in _claims(pods):
            self._marked.pop(self._views.claims.uid_of(key), None)

    def _is_known(self, mark: SelectedNode) -> bool:
        """Whether we selected this node for the claim before: then its provisioner has rejected the node."""
        return self._marked.get(mark.claim.metadata.uid) == mark.node

    async def _write(self, marks: Iterable[SelectedNode]) -> bool:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._mark(mark)) for mark in marks]
        outcomes = [task.result() for task in tasks]
        if any(isinstance(outcome, Unknown) for outcome in outcomes):
            await self._api_writer.confirm_writes()
        return all(isinstance(outcome, (Written, Gone)) for outcome in outcomes)

    async def _mark(self, mark: SelectedNode) -> Outcome:
        metadata = mark.claim.metadata
        self._marked.pop(metadata.uid, None)
        patch = {"metadata": {"annotations": {PVC_SELECTED_NODE: mark.node}}}
        given = Precondition(metadata.uid, metadata.resource_version)
        outcome = await self._api_writer.door.merge_patch(CLAIMS.ref(metadata.name, metadata.namespace), patch, given)
        if isinstance(outcome, Written) and mark.node is not None:
            self._marked[metadata.uid] = mark.node
        return outcome


def _claims(pods: Iterable[Pod]) -> set[tuple[str, str]]:
    return {(pod.metadata.namespace, name) for pod in pods for name in claims_of(pod)}


def _seated(plan: Plan, pods: Iterable[Pod]) -> list[tuple[Pod, Assignment]]:
    assignments = {assignment.uid: assignment for assignment in plan.assignments}
    return [(pod, assignments[pod.metadata.uid]) for pod in pods if pod.metadata.uid in assignments]
