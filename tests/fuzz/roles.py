"""All roles at once, fed by hand: every cache that any of them keeps, whoever subscribes to it, and what they read.

Nothing is written: the server they speak to refuses everything.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import msgspec

from fuzz.objects import Json
from fuzz.owners import group_pod, group_pods_of
from fuzz.records import read_record
from fuzz.reviews import Reviews
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.operator_configuration import OperatorConfiguration, load_configuration
from spinney.core.expansion.objects import CLUSTERTOPOLOGIES, TOPOLOGY_BINDINGS
from spinney.core.expansion.settings import Settings as OperatorSettings
from spinney.core.scheduling.settings import Settings
from spinney.drive.apply.change_applier import ChangeApplier
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.codec import Broken, codec_for
from spinney.drive.client.errors import ClientError, TransportError
from spinney.drive.client.http.transport import Response
from spinney.drive.client.informers.cache import Cache, OwnWrites
from spinney.drive.client.informers.optional_caches import OptionalCaches
from spinney.drive.client.informers.shared_caches import SharedCaches
from spinney.drive.client.informers.unreadable import Unreadable
from spinney.drive.client.paths import Key, ResourcePath
from spinney.drive.controller.controller import Controller
from spinney.drive.dynamo import Dynamo
from spinney.drive.dynamo import DynamoCaches as DynamoViews
from spinney.drive.grouper.grouper import Grouper
from spinney.drive.operator import (
    clustertopology_controller,
    podclique_controller,
    podcliquescalinggroup_controller,
    podcliqueset_controller,
    podgang_controller,
)
from spinney.drive.operator.caches import OperatorCaches as OperatorViews
from spinney.drive.operator.reconciler import ReconcileContext
from spinney.drive.operator.settings_from_config import settings_of
from spinney.serve.dashboard.data_sources import Views as DashboardViews
from spinney.serve.dashboard.model import Model
from spinney.whatif.inputs.operator_settings import dynamo_settings_of
from spinney.whatif.simulator import ClusterSimulator

SETS = ResourcePath("grove.io", "v1alpha1", "podcliquesets")
_MOST = 50
_EXPLAINED = 20
_LONGEST_SHOWN = 2000
SLOW_S = 0.05
CONFIGURATION = {
    "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
    "topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "zone", "key": "zone"}]},
}


class Silent:
    """A server that lets nobody do anything: nothing is tried again, so that nobody waits."""

    async def request(self, *_: Any, **__: Any) -> Response:
        return Response(403, {}, msgspec.json.encode({"kind": "Status", "code": 403, "reason": "Forbidden"}))

    @asynccontextmanager
    async def stream(self, *_: Any, **__: Any) -> Any:
        raise TransportError("nobody is there")
        yield

    async def close(self) -> None:
        pass


class Noted(Unreadable):
    """Keeps the traces of what somebody failed of; what can not be decoded is only counted."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []
        self.complaints: list[str] = []
        self.undecodable: list[Broken] = []

    def add(self, resource: ResourcePath, thing: Broken, error: Exception | None = None) -> None:
        if error is None:
            self.undecodable.append(thing)
        else:
            self.fail(f"{resource} {thing.key}", error)

    def complain(self, about: str, error: Exception) -> None:
        """A controller fails of one key, says so and tries it again: nobody else is harmed."""
        if len(self.complaints) < _MOST:
            self.complaints.append(f"{about}: {''.join(traceback.format_exception(error))}")

    def fail(self, about: str, error: Exception) -> None:
        if len(self.failures) < _MOST:
            self.failures.append(f"{about}: {''.join(traceback.format_exception(error))}")


@dataclass(slots=True)
class Figures:
    """What was done, and which object took longest."""

    fed: int = 0
    reconciled: int = 0
    reviewed: int = 0
    slowest_s: float = 0.0
    slowest: str = ""


class Roles:
    """`feed` objects, let everybody `think` about them, `forget` them; `noted` has what went wrong."""

    def __init__(self) -> None:
        self.noted = Noted()
        self.figures = Figures()
        self._caches: dict[str, list[tuple[Cache[Any], type[Any]]]] = {}
        self._version = 0
        self._doubted: Json | None = None
        self._client = ApiClient(Silent(), system_dice())
        told = load_configuration(msgspec.json.encode(CONFIGURATION).decode())
        self._reviews = Reviews(told)
        with self._recorded():
            self.shadow, self.model = self._scheduler_and_pages()
            self._controllers = [*self._operator(settings_of(told)), *self._grouper(), self._dynamo(told)]
        for controller in self._controllers:
            controller.queue = cast("Any", _Keys())
            for source in controller._sources:
                source.cache.subscribe(controller._enqueue(source))

    @property
    def cached(self) -> Mapping[str, frozenset[str]]:
        """What the roles cache: the apiVersions of each resource, by its plural."""
        return {
            plural: frozenset(cache.resource.api_version for cache, _ in caches)
            for plural, caches in self._caches.items()
        }

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Every cache that is asked for meanwhile complains to us."""
        original = SharedCaches.cache

        def record(made: SharedCaches, selection: Selection, kind: type[Any], **more: Any) -> Cache[Any]:
            found: Cache[Any] = original(made, selection, kind, **more)
            known = self._caches.setdefault(selection.resource.plural, [])
            if all(found is not cache for cache, _ in known):
                known.append((found, kind))
                found._unreadable = self.noted
                found.synced = True
            return found

        SharedCaches.cache = record  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            SharedCaches.cache = original  # type: ignore[method-assign]

    # The roles

    def _scheduler_and_pages(self) -> tuple[ClusterSimulator, Model]:
        shadow = ClusterSimulator(Settings(), 0.0)
        seen = shadow.views
        made = SharedCaches(self._client, OwnWrites(), system_dice()).cache(Selection(SETS), dict)
        pages = DashboardViews(
            seen.nodes,
            seen.pods,
            seen.podgroups,
            seen.topologies,
            seen.cluster_topologies,
            seen.topology_bindings,
            cast("Any", made),
            seen.queues,
        )
        return shadow, Model(pages)

    def _operator(self, settings: OperatorSettings) -> list[Controller[Any]]:
        writes, clock, dice = OwnWrites(), SystemClock(), system_dice()
        optional = OptionalCaches(self._client, writes, dice)
        views = OperatorViews(SharedCaches(self._client, writes, dice), optional, settings, True, True)
        change_applier = ChangeApplier(Door(Silent(), dice, field_manager="fuzz", own_writes=writes), clock)
        context = ReconcileContext(views, settings, change_applier, self._client, clock, dice)
        made = [
            podcliqueset_controller.controller(context, 1),
            podcliquescalinggroup_controller.controller(context, 1),
            podclique_controller.controller(context, 1),
        ]
        return [
            *made,
            podgang_controller.controller(context, 1),
            clustertopology_controller.controller(context, CLUSTERTOPOLOGIES, views.topologies),
            clustertopology_controller.controller(context, TOPOLOGY_BINDINGS, views.topology_bindings),
        ]

    def _grouper(self) -> list[Controller[Any]]:
        grouper = Grouper(Silent(), SystemClock(), system_dice())
        return [grouper._pods]

    def _dynamo(self, told: OperatorConfiguration) -> Controller[Any]:
        dynamo = Dynamo(Silent(), SystemClock(), system_dice(), dynamo_settings_of(told))
        dynamo._views = DynamoViews(dynamo.caches, dynamo._settings)
        return dynamo._controller()

    # Feeding

    def feed(self, plural: str, found: Json, change: str = "ADDED") -> None:
        """An object comes as a watch brings it."""
        self._version += 1
        metadata = {
            **found["metadata"],
            "uid": f"uid-{found['metadata']['name']}",
            "resourceVersion": str(self._version),
        }
        whole = {**found, "metadata": metadata}
        line = msgspec.json.encode({"type": change, "object": whole})
        if change != "DELETED":
            self._read_beside(plural, whole)
        quick = True
        for cache, kind in self._caches.get(plural, ()):
            began = time.process_time()
            self._noting(f"fold of {plural}", partial(_fold, cache, kind, line), found)
            quick = self._timed(began, plural, found) and quick
        if not quick and change != "DELETED":
            self.feed(plural, found, "MODIFIED")  # perhaps somebody else was slow
            return
        self.figures.fed += 1

    def _read_beside(self, plural: str, found: Json) -> None:
        """What is read of an object but not from a cache: the owners of pods, and the records of plans."""
        self._noting(f"owner of {plural}", partial(group_pods_of, plural, found), found)
        if plural == "pods":
            self._noting("grouping of pods", partial(group_pod, found), found)
        if plural == "podgroups":
            self._noting("record", partial(read_record, found), found)

    def _noting(self, about: str, read: Callable[[], object], found: Json | None = None) -> None:
        try:
            read()
        except Exception as error:
            self.noted.fail(f"{about} {_shown(found)}", error)

    def review(self, plural: str, found: Json, olds: Sequence[Json] = ()) -> None:
        """Somebody creates it, makes it of each of the old objects, and deletes it; the webhook is asked each time."""
        for about, ask in self._reviews.of(plural, found, olds):
            self._reviewed(plural, found, about, ask)

    def _reviewed(self, plural: str, found: Json, about: str, ask: Callable[[], bool]) -> None:
        began = time.process_time()
        try:
            self.figures.reviewed += ask()
        except Exception as error:
            self.noted.fail(f"{about} of {plural} {_shown(found)}", error)
        if not self._timed(began, plural, found):
            self._reviewed(plural, found, about, ask)

    def _timed(self, began: float, plural: str, found: Json) -> bool:
        """Whether it was quick, or is slow again: a collector that ran in between is nobody's fault."""
        took = time.process_time() - began
        if took > SLOW_S and self._doubted is not found:
            self._doubted = found
            return False
        if took > self.figures.slowest_s:
            self.figures.slowest_s = took
            self.figures.slowest = f"{plural} {_shown(found)}"
        return True

    # Thinking

    async def think(self, most: int) -> None:
        """The scheduler decides, the pages are drawn, controllers reconcile at most so many keys each."""
        self._noting("scheduler", self.shadow.settle)
        try:
            await self.model.refresh()
        except Exception as error:
            self.noted.fail("pages", error)
        self._noting("tree of nodes", self.model.trees)
        self._noting("list of gangs", self.model.rows)
        levels = self.model.levels()
        for key in self.shadow.views.podgroups.keys()[:_EXPLAINED]:
            self._explain(key, levels)
        for controller in self._controllers:
            await self._reconcile(controller, most)

    def _explain(self, key: Key, levels: Any) -> None:
        """The page of a gang fails by itself, and says so."""
        try:
            self.model.explained(key, levels)
        except Exception as error:
            self.noted.complain(f"page of {key}", error)

    async def _reconcile(self, controller: Controller[Any], most: int) -> None:
        queue = cast("_Keys", controller.queue)
        for key in list(queue.keys)[:most]:
            self.figures.reconciled += 1
            try:
                await controller._reconcile(key)
            except ClientError:
                continue
            except Exception as error:
                self.noted.complain(f"{controller.name} {key}", error)
        queue.keys.clear()


def _shown(found: Json | None) -> str:
    return json.dumps(found)[:_LONGEST_SHOWN] if found is not None else ""


def _fold(cache: Cache[Any], kind: type[Any], line: bytes) -> None:
    batch = codec_for(kind).events(line, str(cache.resource))
    cache.fold(batch.events)
    cache.fold_broken(batch.broken)


class _Keys:
    """A queue that nobody works on by himself."""

    def __init__(self) -> None:
        self.keys: dict[Any, None] = {}

    def add(self, key: Any) -> None:
        self.keys[key] = None

    def add_after(self, key: Any, _: float) -> None:
        self.keys[key] = None
