"""Reports and withdraws user errors: events on the owner and the pod, and the condition of the pod.

Never reports the same error twice; a condition that the object already has is not written again after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

from kube_apimachinery.clock import Clock
from spinney.api.changes import Change
from spinney.api.kinds.podgroup import PodGroup
from spinney.core.expansion.objects import PODS
from spinney.core.grouping.owner_chain import Owner, Pod
from spinney.core.grouping.user_feedback import (
    has_user_error,
    owner_event,
    pod_condition,
    pod_event,
    podgroup_condition,
    podgroup_event,
)
from spinney.drive.apply.change_applier import ChangeApplier, path_of
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, Outcome, written
from spinney.drive.apply.write import Precondition
from spinney.drive.client.paths import Key

_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Reported:
    uid: str
    sentences: tuple[str, ...]
    blocking: bool


class UserErrorReporter:
    """The current user errors, by pod."""

    def __init__(self, door: Door, change_applier: ChangeApplier, clock: Clock) -> None:
        self._door = door
        self._change_applier = change_applier
        self._clock = clock
        self._reported: dict[Key, _Reported] = {}
        self._owners: dict[str, tuple[str, ...]] = {}

    @property
    def pods(self) -> list[Key]:
        """The pods with a reported error."""
        return sorted(self._reported)

    def forget(self, key: Key) -> None:
        self._reported.pop(key, None)

    async def block(self, pod: Pod, top: Owner, sentence: str, podgroup: PodGroup | None) -> None:
        """Report an error that keeps the pod without a PodGroup until the user corrects it."""
        await self._report(pod, top, (sentence,), podgroup, blocking=True)
        if podgroup is not None:
            await self._change_applier.carry_out(podgroup_condition(podgroup, sentence, self._clock.now()))
        condition = pod_condition(pod, sentence, self._clock.now())
        if condition is not None:
            await self._put_status(pod, {"conditions": [condition]})

    async def warn(self, pod: Pod, top: Owner, sentences: tuple[str, ...], podgroup: PodGroup | None) -> None:
        """Report warnings about a pod that has its PodGroup. Without sentences earlier errors are withdrawn."""
        if sentences:
            await self._report(pod, top, sentences, podgroup, blocking=False)
        else:
            self.forget((pod.metadata.namespace, pod.metadata.name))
            self._owners.pop(top.uid, None)
        if podgroup is not None:
            await self._change_applier.carry_out(podgroup_condition(podgroup, "", self._clock.now()))
        await self.withdraw(pod)

    async def withdraw(self, pod: Pod) -> None:
        """Remove the error condition of a pod."""
        if has_user_error(pod):
            await self._put_status(pod, {})

    async def _report(
        self, pod: Pod, top: Owner, sentences: tuple[str, ...], podgroup: PodGroup | None, *, blocking: bool
    ) -> None:
        key, report = (pod.metadata.namespace, pod.metadata.name), _Reported(pod.metadata.uid, sentences, blocking)
        if self._reported.get(key) == report:
            return
        events: list[Change] = [pod_event(pod, sentence) for sentence in sentences]
        if top.uid != pod.metadata.uid and self._owners.get(top.uid) != sentences:
            events += [owner_event(top, sentence) for sentence in sentences]
            if podgroup is not None:
                events += [podgroup_event(podgroup, sentence) for sentence in sentences]
        await self._change_applier.carry_out(events)
        self._reported[key] = report
        self._remember_owner(top.uid, sentences)

    def _remember_owner(self, uid: str, sentences: tuple[str, ...]) -> None:
        self._owners.pop(uid, None)
        self._owners[uid] = sentences
        while len(self._owners) > _REMEMBERED:
            del self._owners[next(iter(self._owners))]

    async def _put_status(self, pod: Pod, status: dict[str, object]) -> None:
        """Server-side apply of our part of a pod's status; fields that we no longer set are removed."""
        ref = path_of(PODS).ref(pod.metadata.name, pod.metadata.namespace)
        body = {"apiVersion": "v1", "kind": "Pod", "status": status}
        outcome: Outcome = await self._door.apply(ref, body, Precondition(pod.metadata.uid), subresource="status")
        if not isinstance(outcome, Gone):
            written(outcome)
