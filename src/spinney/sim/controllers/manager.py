"""The small controllers at work: views in, decisions out, effects through the door.

One class for all of them: a kind differs in what it looks at and in its pure `decide`, not in how it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kube_apimachinery.clock import Clock, Dice
from kube_apimachinery.generated_names import generated_name
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.informers.cache import Change
from spinney.drive.client.paths import Key
from spinney.drive.controller.controller import Controller, Done, RequeueAfter, Result, Source
from spinney.sim.controllers import claims, deployment, disruption, job, replicaset, statefulset, third_party
from spinney.sim.controllers.children import adopt, adopt_pods
from spinney.sim.controllers.effects import Create, Decision, carry_out
from spinney.sim.objects import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    REPLICASETS,
    SERVICE_ACCOUNTS,
    STATEFULSETS,
    STORAGE_CLASSES,
    VOLUMES,
    Json,
    OwnerReference,
    Pod,
    Views,
    owned_by,
)

_GATHER_S = 0.2

ALL = ("claim", "deployment", "disruption", "job", "replicaset", "serviceaccount", "statefulset")
THIRD_PARTY = tuple(sorted(each.name for each in third_party.WORKLOADS))
"""Controllers of kinds whose definitions are not part of Kubernetes: they have to be there."""


class Controllers:
    """The controllers named in `which`, over shared views."""

    def __init__(
        self, views: Views, door: Door, client: ApiClient, clock: Clock, dice: Dice, which: Sequence[str] = ALL
    ) -> None:
        self._views = views
        self._door = door
        self._client = client
        self._clock = clock
        self._dice = dice
        makers: dict[str, Callable[[], Controller[Key]]] = {
            "claim": self._claims,
            "deployment": self._deployments,
            "disruption": self._budgets,
            "job": self._jobs,
            "replicaset": self._replicasets,
            "serviceaccount": self._service_accounts,
            "statefulset": self._statefulsets,
            **{each.name: partial(self._third_party, each) for each in third_party.WORKLOADS},
        }
        unknown = sorted(set(which) - set(makers))
        if unknown:
            raise ValueError(f"controllers: found {', '.join(unknown)}, allowed: {', '.join(sorted(makers))}")
        self.controllers: list[Controller[Key]] = [makers[name]() for name in sorted(which)]

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run(), name=f"{controller.name}-controller")

    def _controller(
        self, name: str, sources: list[Source[Key]], gathered: list[Source[Key]], decide: Callable[[Key], Decision]
    ) -> Controller[Key]:
        """Changes in `sources` count at once; those in `gathered` come by the thousand and are taken together."""

        async def reconcile(key: Key) -> Result:
            decision = decide(key)
            await carry_out(self._door, decision.effects)
            if decision.again_s is None:
                return Done()
            return RequeueAfter(max(decision.again_s - self._clock.now(), 0.001))

        both = [*sources, *(replace(source, gather_s=_GATHER_S) for source in gathered)]
        return Controller(name, both, reconcile, self._client, self._dice)

    def _new_name(self, prefix: str) -> str:
        return generated_name(prefix, self._dice)

    def _pods_of(self, kind: str) -> Source[Key]:
        return Source(self._views.pods, lambda change: _owner_keys(change, kind))

    def _owned(self, owner: Json) -> list[Pod]:
        return self._views.pods.by("owner", owned_by(owner))

    def _jobs(self) -> Controller[Key]:
        jobs = self._views.of(JOBS)

        def decide(key: Key) -> Decision:
            found = jobs.get(key)
            if found is None:
                return Decision()
            return job.decide(found, self._owned(found), self._clock.now(), self._new_name)

        return self._controller("job", [Source(jobs, _itself)], [self._pods_of("Job")], decide)

    def _replicasets(self) -> Controller[Key]:
        replicasets = self._views.of(REPLICASETS)

        def decide(key: Key) -> Decision:
            found = replicasets.get(key)
            if found is None:
                return Decision()
            if orphans := adopt_pods(found, self._views.pods.by("orphan", key[0])):
                return Decision(orphans)
            return replicaset.decide(found, self._owned(found), self._clock.now(), self._new_name)

        return self._controller("replicaset", [Source(replicasets, _itself)], [self._pods_of("ReplicaSet")], decide)

    def _deployments(self) -> Controller[Key]:
        deployments, replicasets = self._views.of(DEPLOYMENTS), self._views.of(REPLICASETS)

        def decide(key: Key) -> Decision:
            found = deployments.get(key)
            if found is None:
                return Decision()
            if orphans := adopt(found, REPLICASETS, replicasets.by("namespace", key[0])):
                return Decision(orphans)
            sets = replicasets.by("owner", owned_by(found))
            left = sum(len(self._owned(each)) for each in sets)
            return deployment.decide(found, sets, left, self._clock.now())

        def of_pod(change: Change[Pod]) -> Iterable[Key]:
            """The last pod of an old ReplicaSet lets a Recreate go on."""
            if change.new is None:
                for key in _owner_keys(change, "ReplicaSet"):
                    owner = replicasets.get(key)
                    yield from _json_owner_keys(owner, "Deployment") if owner is not None else ()

        sources: list[Source[Key]] = [
            Source(deployments, _itself),
            Source(replicasets, lambda change: _json_owner_keys(change.new or change.old, "Deployment")),
        ]
        return self._controller("deployment", sources, [Source(self._views.pods, of_pod)], decide)

    def _statefulsets(self) -> Controller[Key]:
        statefulsets, known = self._views.of(STATEFULSETS), self._views.of(CLAIMS)

        def decide(key: Key) -> Decision:
            found = statefulsets.get(key)
            if found is None:
                return Decision()
            alone = self._views.pods.by("orphan", key[0])
            if orphans := adopt_pods(found, [pod for pod in alone if statefulset.ordinal_of(found, pod) is not None]):
                return Decision(orphans)
            names = frozenset(each["metadata"]["name"] for each in known.by("namespace", key[0]))
            return statefulset.decide(found, self._owned(found), names, self._clock.now())

        sources: list[Source[Key]] = [Source(statefulsets, _itself), Source(known, _nobody)]
        return self._controller("statefulset", sources, [self._pods_of("StatefulSet")], decide)

    def _third_party(self, workload: third_party.Workload) -> Controller[Key]:
        found = self._views.of(workload.resource)
        children = self._views.of(workload.through) if workload.through is not None else None

        def decide(key: Key) -> Decision:
            owner = found.get(key)
            if owner is None:
                return Decision()
            below = children.by("owner", owned_by(owner)) if children is not None else []
            return third_party.decide(workload, owner, self._owned(owner), below, self._clock.now())

        def of_child(change: Change[Json]) -> Iterable[Key]:
            return _json_owner_keys(change.new or change.old, workload.kind)

        sources: list[Source[Key]] = [Source(found, _itself)]
        sources += [Source(children, of_child)] if children is not None else []
        return self._controller(workload.name, sources, [self._pods_of(workload.kind)], decide)

    def _budgets(self) -> Controller[Key]:
        budgets = self._views.of(BUDGETS)
        scaled = {"ReplicaSet": self._views.of(REPLICASETS), "StatefulSet": self._views.of(STATEFULSETS)}

        def decide(key: Key) -> Decision:
            found = budgets.get(key)
            if found is None:
                return Decision()

            def scale_of(owner: OwnerReference) -> int | None:
                cache = scaled.get(owner.kind)
                known = cache.get((key[0], owner.name)) if cache is not None else None
                return known["spec"].get("replicas", 1) if known is not None else None

            return disruption.decide(found, self._views.pods.by("namespace", key[0]), scale_of, self._clock.now())

        def in_namespace(change: Change[Any]) -> Iterable[Key]:
            return [(change.key[0], each["metadata"]["name"]) for each in budgets.by("namespace", change.key[0])]

        gathered: list[Source[Key]] = [Source(self._views.pods, in_namespace)]
        gathered += [Source(cache, in_namespace) for cache in scaled.values()]
        return self._controller("disruption", [Source(budgets, _itself)], gathered, decide)

    def _claims(self) -> Controller[Key]:
        known, volumes = self._views.of(CLAIMS), self._views.of(VOLUMES)
        classes = self._views.of(STORAGE_CLASSES)

        def decide(key: Key) -> Decision:
            found = known.get(key)
            if found is None:
                return Decision()
            volume = volumes.get(("", claims.volume_name(found)))
            return claims.decide(found, volume, classes.get(("", claims.class_name(found))))

        def of_volume(change: Change[Json]) -> Iterable[Key]:
            volume = change.new or change.old or {}
            claim = volume["spec"].get("claimRef")
            return [(claim["namespace"], claim["name"])] if claim else []

        def of_class(change: Change[Json]) -> Iterable[Key]:
            return [
                (each["metadata"]["namespace"], each["metadata"]["name"])
                for each in known
                if claims.class_name(each) == change.key[1]
            ]

        sources = [Source(known, _itself), Source(volumes, of_volume), Source(classes, of_class)]
        return self._controller("claim", sources, [], decide)

    def _service_accounts(self) -> Controller[Key]:
        """Every namespace has an account called default."""
        namespaces, accounts = self._views.of(NAMESPACES), self._views.of(SERVICE_ACCOUNTS)

        def decide(key: Key) -> Decision:
            namespace = namespaces.get(key)
            if namespace is None or namespace["metadata"].get("deletionTimestamp") or (key[1], "default") in accounts:
                return Decision()
            metadata = {"name": "default", "namespace": key[1]}
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            return Decision((Create(SERVICE_ACCOUNTS.ref("default", key[1]), body),))

        def gone(change: Change[Any]) -> Iterable[Key]:
            return [("", change.key[0])] if change.new is None and change.key[1] == "default" else []

        return self._controller("serviceaccount", [Source(namespaces, _itself), Source(accounts, gone)], [], decide)


def _itself(change: Change[Any]) -> Iterable[Key]:
    return (change.key,)


def _nobody(_change: Change[Any]) -> Iterable[Key]:
    return ()


def _owner_keys(change: Change[Pod], kind: str) -> Iterable[Key]:
    for pod in (change.old, change.new):
        owner = pod.metadata.controller if pod is not None else None
        if owner is not None and owner.kind == kind:
            yield (change.key[0], owner.name)


def _json_owner_keys(obj: Json | None, kind: str) -> Iterable[Key]:
    metadata = obj["metadata"] if obj is not None else {}
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == kind:
            yield (metadata["namespace"], owner["name"])
