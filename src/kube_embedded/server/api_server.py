"""The embedded Kubernetes API server: one entry for every request, and what happens by itself behind it.

It opens no socket: `handle` takes a request value and gives a reply value. Sockets are the shell's.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from kube_apimachinery.admission import AdmissionPlugin, AdmissionRequest, Object
from kube_apimachinery.clock import Clock, Dice
from kube_embedded.access.rbac import GROUP as RBAC_GROUP
from kube_embedded.access.rbac import Authorizer, NoEscalation
from kube_embedded.access.tokens import Authentication
from kube_embedded.admission.builtin_plugins import BuiltinRules
from kube_embedded.admission.chain import AdmissionChain, WebhookCaller
from kube_embedded.admission.service_addresses import ServiceAddresses
from kube_embedded.admission.webhook_client import HttpsPost
from kube_embedded.base.errors import ApiError, internal
from kube_embedded.base.generated_metadata import new_uid
from kube_embedded.base.http import HttpReply, HttpRequest, decode_json, error_reply
from kube_embedded.base.resource import Converter, Registry, Resource, ServedVersions
from kube_embedded.base.store import Event, SqliteJournal, Store
from kube_embedded.builtins import builtin_converters, builtin_resources
from kube_embedded.controllers.crd_controller import CrdController
from kube_embedded.controllers.garbage_collector import GarbageCollector
from kube_embedded.controllers.internal_writer import InternalWriter
from kube_embedded.controllers.namespace_controller import NamespaceController, bootstrap
from kube_embedded.customresources.definition import DefinitionStrategy
from kube_embedded.requests.kernel import Kernel, StoreLookup
from kube_embedded.requests.pod_template_cache import PodTemplateCache
from kube_embedded.requests.writing import shape
from kube_embedded.schema.cel.program import compile as compile_cel
from kube_embedded.server.routing import Router

log = structlog.get_logger("apiserver")

_WEBHOOKS = "admissionregistration.k8s.io"
_RETRY_S = 1.0
"""How long housekeeping waits before it asks again for what a rule refused."""
_CREATED_BY_UPDATE = frozenset(
    ["ClusterRole", "ClusterRoleBinding", "Endpoints", "Event", "Lease", "LimitRange", "Role", "RoleBinding", "Service"]
)
"""Kinds that a PUT creates where there is none."""


class ApiServer:
    """Build it, `start` it, `handle` requests, `stop` it."""

    def __init__(
        self,
        clock: Clock,
        dice: Dice,
        *,
        plugins: Sequence[AdmissionPlugin] = (),
        converters: Mapping[tuple[str, str], Converter] | None = None,
        authentication: Authentication | None = None,
        journal: SqliteJournal | None = None,
    ) -> None:
        self._journal = journal
        store = Store(journal)
        registry = Registry(_resources(), _converters())
        self.kernel = Kernel(store, registry, AdmissionChain((), None, StoreLookup(store)), clock, dice)
        writer = InternalWriter(self.kernel)
        self.authorizer = Authorizer(self._listing)
        self._rules = BuiltinRules(self._listing)
        self._post = HttpsPost()
        caller = WebhookCaller(
            self._post,
            compile_cel,
            lambda: new_uid(dice),
            self.kernel.lookup,
            versions=ServedVersions(registry),
            normalise=self._normalise,
        )
        self.kernel.admission = AdmissionChain(
            (self._rules, NoEscalation(self.authorizer), ServiceAddresses(store), *plugins), caller, self.kernel.lookup
        )
        self._definitions = CrdController(self.kernel, writer, converters or {})
        self._controllers = (
            self._definitions,
            GarbageCollector(self.kernel, writer),
            NamespaceController(self.kernel, writer),
        )
        templates = PodTemplateCache(self._is_repeatable)
        self._router = Router(self.kernel, authentication or Authentication(), self.authorizer, templates)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bring back what a journal kept, make sure of the objects every cluster has, and begin to keep house."""
        if self._journal is not None:
            self._replay(self._journal)
        self.kernel.store.listeners.append(self._on_event)
        self._definitions.load()
        await bootstrap(self.kernel)
        self._refresh_webhooks()
        self._task = asyncio.create_task(self._run_controllers(), name="apiserver-housekeeping")

    def _replay(self, journal: SqliteJournal) -> None:
        def load(collection: str, body: bytes) -> None:
            obj = decode_json(body)
            group, _, plural = collection.partition("/")
            found = self.kernel.registry.versions_of(group, plural)
            fields = found[0].strategy.selectable(obj) if found else {}
            self.kernel.store.load(collection, self.kernel.restored(obj, body, fields))

        self.kernel.store.start_at(journal.replay(load))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for collection in self.kernel.store.collections.values():
            for watcher in collection.watchers:
                watcher.close()
        await self._post.close()
        if self._journal is not None:
            self._journal.close()

    def _normalise(self, request: AdmissionRequest, obj: Object) -> Object:
        """What reading a body does to an object, once more after a webhook has changed it."""
        resource = self.kernel.registry.find(request.group, request.version, request.resource)
        if resource is not None and not request.subresource:
            shape(resource, obj)
            resource.strategy.default(obj)
        return obj

    def _is_repeatable(self, request: AdmissionRequest) -> bool:
        """Whether a pod like the last one would fare as the last one did."""
        return self.kernel.admission.asks_only(self._rules, request) and self._rules.goes_by_spec(request.namespace)

    async def handle(self, request: HttpRequest) -> HttpReply:
        """Answer one request; whatever goes wrong becomes a Status."""
        try:
            return await self._router.route(request)
        except ApiError as error:
            return error_reply(error)
        except Exception:
            trace = traceback.format_exc()
            log.error("a request failed by our own fault", method=request.method, path=request.path, trace=trace)
            return error_reply(internal("the server could not process the request; its log says why"))

    def _on_event(self, collection: str, event: Event) -> None:
        """After every write: whoever keeps something about the collection is told; housekeeping begins if it is due."""
        group, _, plural = collection.partition("/")
        if group == RBAC_GROUP:
            self.authorizer.changed(group, plural)
        elif group == _WEBHOOKS:
            self._refresh_webhooks()
            self._router.forget()
        elif (group, plural) in self._rules.watched:
            self._rules.changed(group, plural)
            self._router.forget()
        for controller in self._controllers:
            if controller.observe(collection, event):
                self._wake.set()

    async def _run_controllers(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            for controller in self._controllers:
                try:
                    refused = await controller.process()
                except Exception:
                    log.error("housekeeping failed", part=type(controller).__name__, trace=traceback.format_exc())
                    refused = True
                if refused:
                    loop.call_later(_RETRY_S, self._wake.set)

    def _refresh_webhooks(self) -> None:
        self.kernel.admission.set_configurations(
            self._listing(_WEBHOOKS, "mutatingwebhookconfigurations"),
            self._listing(_WEBHOOKS, "validatingwebhookconfigurations"),
        )

    def _listing(self, group: str, plural: str) -> list[Object]:
        return [decode_json(record.body) for record in self.kernel.store.collection(f"{group}/{plural}").after(None)]


def _resources() -> list[Resource]:
    """The built-in kinds; definitions of custom ones have rules of their own."""
    found = [
        replace(
            one,
            orphans=one.kind == "Job",
            create_on_update=one.kind in _CREATED_BY_UPDATE,
            storage_group="" if one.group == "events.k8s.io" else None,
        )
        for one in builtin_resources()
    ]
    return [
        replace(one, strategy=DefinitionStrategy(), plain_metadata=True)
        if one.kind == "CustomResourceDefinition"
        else one
        for one in found
    ]


def _converters() -> dict[str, Converter]:
    """Conversions of built-in kinds by collection; events of both groups are kept in one."""
    found = {f"{group}/{plural}": convert for (group, plural), convert in builtin_converters().items()}
    found["/events"] = found.pop("events.k8s.io/events")
    return found
