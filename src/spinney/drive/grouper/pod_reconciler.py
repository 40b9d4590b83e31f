"""The pod controller of the pod-grouper: assigns a pod to the PodGroup that its owner asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from kube_apimachinery.clock import Dice
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import (
    GATE_PODGANG_PENDING,
    KAI_STALE_TIMESTAMP,
    KAI_SUBGROUP_NAME,
    KAI_TOP_OWNER_METADATA,
    POD_GROUP_NAME,
    PODGANG,
)
from spinney.core.expansion.objects import PODGROUPS, delete
from spinney.core.grouping.owner_chain import InvalidFieldError, OwnerChain, Pod, UserError, chain_of
from spinney.core.grouping.pod_grouping import Answer, group, opts_out
from spinney.core.grouping.podgroups import DesiredPodGroup, Skip, abandoned, keep, mark
from spinney.core.grouping.queue_and_priority import GrouperSettings
from spinney.drive.apply.change_applier import ChangeApplier
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ApiStatusError, Policy, StaleView
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source
from spinney.drive.grouper.caches import GrouperCaches, owner_key
from spinney.drive.grouper.owner_resolver import FRESH_S, Expired, OwnerResolver
from spinney.drive.grouper.user_error_reporter import UserErrorReporter

# Polling of owners that no cache watches: one pod polls for each owner, less often the longer nothing changes.
#
# So a corrected owner is noticed soon, and a thousand waiting pods cost no more reads than one.


@dataclass(frozen=True, slots=True)
class PollInterval:
    """The first delay between polls, its growth factor and its limit."""

    first_s: float
    growth: float
    slowest_s: float


MISTAKEN = PollInterval(FRESH_S, 1.1, 15.0)
PENDING = PollInterval(2 * FRESH_S, 2.0, 60.0)


@dataclass(frozen=True, slots=True)
class _Poll:
    key: Key
    versions: tuple[str, ...]
    next_s: float


@dataclass(frozen=True, slots=True)
class PollDecision:
    """When to poll again (None: not at all), and whether the owners have changed since the last poll."""

    after_s: float | None = None
    changed: bool = False


class OwnerPoller:
    """Elects one polling pod for each nearest owner."""

    def __init__(self) -> None:
        self._polls: dict[str, _Poll] = {}

    def next_poll(self, key: Key, chain: OwnerChain, interval: PollInterval) -> PollDecision:
        """When a waiting pod polls its owners; never without owners or while another pod polls the same owner."""
        if chain.is_bare:
            return PollDecision()
        owner, versions = owner_key(chain.pod), _versions(chain)
        poll = self._polls.get(owner)
        if poll is not None and poll.key != key:
            return PollDecision()
        changed = poll is not None and poll.versions != versions
        after_s = interval.first_s if poll is None or changed else min(poll.next_s, interval.slowest_s)
        self._polls[owner] = _Poll(key, versions, after_s * interval.growth)
        return PollDecision(after_s, changed)

    def leave(self, key: Key, owner: str) -> bool:
        """The pod stops polling; returns whether it was the polling pod of this owner."""
        poll = self._polls.get(owner)
        if poll is None or poll.key != key:
            return False
        del self._polls[owner]
        return True


def _versions(chain: OwnerChain) -> tuple[str, ...]:
    seen = (*chain.owners, *((chain.gang,) if chain.gang is not None else ()))
    return tuple(owner.body.get("metadata", {}).get("resourceVersion", "") for owner in seen)


_EXPIRED_S = 5.0
_SHOWN_S = 10.0
_SIBLING_S = 1.0


@dataclass(slots=True)
class PodReconciler:
    """Reconciles one pod at a time; one PodGroup is written by one worker at a time."""

    views: GrouperCaches
    owner_resolver: OwnerResolver
    change_applier: ChangeApplier
    user_errors: UserErrorReporter
    settings: GrouperSettings
    again: Callable[[Key, float], None] = lambda key, after_s: None
    _owner_poller: OwnerPoller = field(default_factory=OwnerPoller)
    _expired: set[Key] = field(default_factory=set)
    _left: dict[Key, Key] = field(default_factory=dict)
    """The PodGroup that a pod was in before, until the pod's next reconcile has checked whether members remain."""
    _writing: WeakValueDictionary[Key, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def reconcile(self, key: Key) -> Result:
        pod = self.views.pods.get(key)
        await self._clear_up(key, pod)
        if pod is None or not self._concerns(pod):
            self._let_go(key, pod)
            return Done()
        try:
            chain, answer = await self._ask(pod)
        except Expired as expired:
            return await self._expire(pod, str(expired))
        except InvalidFieldError as mistake:
            return await self._block(chain_of(pod), str(mistake))
        self._expired.discard(key)
        if isinstance(answer, Skip):
            self.user_errors.forget(key)
            await self.user_errors.withdraw(pod)
            return Done()
        if isinstance(answer, UserError):
            return await self._block(chain, answer.sentence)
        return await self._join(chain, answer)

    async def _ask(self, pod: Pod) -> tuple[OwnerChain, Answer]:
        """The grouping of a pod. An error in a Grove gang is checked again with a fresh read of the PodGang."""
        chain = await self.owner_resolver.chain(pod)
        answer = group(chain, self.views.lookups, self.settings)
        if isinstance(answer, UserError) and PODGANG in pod.metadata.labels:
            self.owner_resolver.forget_gang(pod)
            chain = await self.owner_resolver.chain(pod)
            answer = group(chain, self.views.lookups, self.settings)
        return chain, answer

    def _concerns(self, pod: Pod) -> bool:
        """Whether to reconcile a pod: of our scheduler, alive, not opted out; bound pods only as members of a group
        that is not their own.
        """
        metadata = pod.metadata
        if pod.spec.scheduler_name not in self.settings.scheduler_names or not pod.is_alive:
            return False
        if opts_out(metadata.labels, metadata.annotations):
            return False
        if not pod.spec.node_name:
            return True
        named = metadata.annotations.get(POD_GROUP_NAME)
        found = self.views.podgroups.get((metadata.namespace, named)) if named else None
        is_own = found is not None and any(each.uid == metadata.uid for each in found.metadata.owner_references)
        return bool(named) and not is_own

    async def _join(self, chain: OwnerChain, wanted: DesiredPodGroup) -> Result:
        pod, key = chain.pod, (wanted.namespace, wanted.name)
        async with self._writing.setdefault(key, asyncio.Lock()):
            await self._shown(key)
            live = self.views.podgroups.get(key)
            changes = keep(wanted, live, self.views.lookups)
            if isinstance(changes, UserError):
                return await self._block(chain, changes.sentence)
            try:
                await self.change_applier.carry_out(changes)
            except ApiStatusError as error:
                return await self._refuse(chain, wanted, error)
        if live is not None and live.metadata.deletion_timestamp is not None:
            return RequeueAfter(_SIBLING_S)
        await self.change_applier.carry_out((*mark(wanted, pod), *abandoned(wanted, pod, self.views.lookups)))
        await self.user_errors.warn(pod, chain.top, wanted.warnings, live)
        return self._poll_again(chain, PENDING)

    async def _refuse(self, chain: OwnerChain, wanted: DesiredPodGroup, error: ApiStatusError) -> Result:
        """A PodGroup that the server refuses is reported as a user error and retried at a slow interval."""
        if error.policy is not Policy.TELL_USER:
            raise error
        await self._block(chain, f"PodGroup {wanted.namespace}/{wanted.name} is refused: {error.status.message}")
        return RequeueAfter(MISTAKEN.slowest_s)

    async def _block(self, chain: OwnerChain, sentence: str) -> Result:
        """Report a user error on the pod, unless it is still gated because its PodGang has not been written yet."""
        pod = chain.pod
        if any(gate.name == GATE_PODGANG_PENDING for gate in pod.spec.scheduling_gates):
            return self._poll_again(chain, MISTAKEN)
        named = pod.metadata.annotations.get(POD_GROUP_NAME)
        found = self.views.podgroups.get((pod.metadata.namespace, named)) if named else None
        await self.user_errors.block(pod, chain.top, sentence, found)
        return self._poll_again(chain, MISTAKEN)

    async def _expire(self, pod: Pod, why: str) -> Result:
        """The owner is gone: give the garbage collector a moment before an error is reported."""
        key = (pod.metadata.namespace, pod.metadata.name)
        if key in self._expired:
            await self.user_errors.block(pod, chain_of(pod).top, f"{pod.title}: metadata.ownerReferences: {why}", None)
        self._expired.add(key)
        return RequeueAfter(_EXPIRED_S)

    def _poll_again(self, chain: OwnerChain, interval: PollInterval) -> Result:
        pod = chain.pod
        key = (pod.metadata.namespace, pod.metadata.name)
        if pod.spec.node_name:
            self._leave(key, pod)
            return Done()
        next_poll = self._owner_poller.next_poll(key, chain, interval)
        if next_poll.changed:
            for other in self.views.pods.by("owner", owner_key(pod)):
                self.again((other.metadata.namespace, other.metadata.name), 0.0)
        return Done() if next_poll.after_s is None else RequeueAfter(next_poll.after_s)

    async def _shown(self, key: Key) -> None:
        """Wait until the cache shows what another worker has just written to the PodGroup."""
        cache = self.views.podgroups
        pending = cache.expectations.pending.get(key)
        if pending is None:
            return
        if pending.unsure:
            raise StaleView(f"PodGroup {'/'.join(key)}: own write of unknown fate")
        try:
            async with asyncio.timeout(_SHOWN_S):
                await cache.wait_shown({key: pending})
        except TimeoutError:
            raise StaleView(f"PodGroup {'/'.join(key)}: own write not seen") from None

    async def _clear_up(self, key: Key, pod: Pod | None) -> None:
        """Delete the PodGroup that a pod has left if no member remains, unless its owner may create more pods."""
        named = self._left.pop(key, None)
        found = self.views.podgroups.get(named) if named is not None else None
        if named is None or found is None or self.views.lookups.members(*named):
            return
        if KAI_TOP_OWNER_METADATA in found.metadata.annotations and (pod or not found.metadata.owner_references):
            await self.change_applier.carry_out(delete(PODGROUPS, found.metadata))

    def _let_go(self, key: Key, pod: Pod | None) -> None:
        self.user_errors.forget(key)
        self._expired.discard(key)
        if pod is not None:
            self._leave(key, pod)

    def _leave(self, key: Key, pod: Pod) -> None:
        """Hand the polling of the owners over to another waiting pod."""
        owner = owner_key(pod)
        if owner and self._owner_poller.leave(key, owner):
            waiting = [each for each in self.views.pods.by("owner", owner) if each.is_alive and not each.spec.node_name]
            for other in waiting[:1]:
                self.again((other.metadata.namespace, other.metadata.name), _SIBLING_S)

    # Which pods a change concerns

    def of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        """The pod itself. When a pod ends or is deleted, a remaining pod of its group is enqueued as well."""
        old, new = change.old, change.new
        if old is not None and (new is None or (old.is_alive and not new.is_alive)):
            self._let_go(change.key, old)
            self._ask_sibling(old)
        if self._has_left(change):
            return (change.key,)
        if new is None or (old is not None and _is_same(old, new)):
            return ()
        return (change.key,)

    def _has_left(self, change: Change[Pod]) -> bool:
        """Whether a pod has left its PodGroup; records the group for `_clear_up`."""
        before, after = _group_of(change.old), _group_of(change.new)
        if before and before != after:
            self._left[change.key] = (change.key[0], before)
        return change.key in self._left

    def of_podgroup(self, change: Change[PodGroup]) -> Iterable[Key]:
        """A PodGroup that others deleted or changed is restored through the reconcile of one of its pods."""
        old, new = change.old, change.new
        if old is None or (new is not None and _kept_part(old) == _kept_part(new)):
            return ()
        members = self.views.lookups.members(*change.key)
        return [(each.metadata.namespace, each.metadata.name) for each in members if each.is_alive][:1]

    def of_lookup(self, change: Change[Any]) -> Iterable[Key]:
        """A missing queue, topology or class may exist now: enqueue all pods with reported errors."""
        spec = getattr(change.old, "spec", None), getattr(change.new, "spec", None)
        if change.old is not None and change.new is not None and spec[0] == spec[1]:
            return ()
        return self.user_errors.pods

    def _ask_sibling(self, pod: Pod) -> None:
        named = pod.metadata.annotations.get(POD_GROUP_NAME)
        if not named:
            return
        members = self.views.lookups.members(pod.metadata.namespace, named)
        left = [each for each in members if each.is_alive and each.metadata.uid != pod.metadata.uid]
        for other in left[:1]:
            self.again((other.metadata.namespace, other.metadata.name), _SIBLING_S)


def _group_of(pod: Pod | None) -> str:
    return pod.metadata.annotations.get(POD_GROUP_NAME, "") if pod is not None else ""


def _is_same(old: Pod, new: Pod) -> bool:
    """Whether nothing changed that the PodGroup depends on; the grouper's own subgroup label does not count."""
    before, after = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and old.is_alive == new.is_alive
        and before.owner_references == after.owner_references
        and before.labels == _without(after.labels, KAI_SUBGROUP_NAME, before.labels)
        and before.annotations == _without(after.annotations, POD_GROUP_NAME, before.annotations)
    )


def _without(found: dict[str, str], key: str, before: dict[str, str]) -> dict[str, str]:
    """The map without `key`, if `key` was not there before."""
    if key in before or key not in found:
        return found
    return {each: value for each, value in found.items() if each != key}


def _kept_part(podgroup: PodGroup) -> tuple[object, ...]:
    """The part whose change enqueues a pod. The stale mark counts: a gang that lacks members may need fewer by now,
    and no cache watches its owner.
    """
    metadata = podgroup.metadata
    is_stale = KAI_STALE_TIMESTAMP in metadata.annotations
    return podgroup.spec, metadata.labels, metadata.deletion_timestamp, is_stale


def controller(grouping: PodReconciler, client: ApiClient, dice: Dice) -> Controller[Key]:
    views = grouping.views
    lookups = (views.queues, views.topologies, views.cluster_topologies, views.topology_bindings, views.classes)
    sources: list[Source[Key]] = [
        Source(views.pods, grouping.of_pod),
        Source(views.podgroups, grouping.of_podgroup),
        *(Source(cache, grouping.of_lookup) for cache in lookups),
    ]
    workers = grouping.settings.workers
    made: Controller[Key] = Controller("pod-grouper", sources, grouping.reconcile, client, dice, workers=workers)
    grouping.again = made.queue.add_after
    return made
