"""The life of CustomResourceDefinitions: what they define is served while they are there, and goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import ApiError
from kube_embedded.base.http import encode_json
from kube_embedded.base.resource import Converter
from kube_embedded.base.store import Event, Record
from kube_embedded.controllers.internal_writer import InternalWriter
from kube_embedded.customresources.definition import CLEANUP, established
from kube_embedded.customresources.strategy import resources
from kube_embedded.requests.kernel import Kernel
from kube_embedded.schema.shaping import prune

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"


class CrdController:
    """Keeps the registry in step with the stored definitions, and their status in step with the registry."""

    def __init__(self, kernel: Kernel, writer: InternalWriter, converters: Mapping[tuple[str, str], Converter]) -> None:
        self._kernel = kernel
        self._writer = writer
        self._converters = converters
        self._due: set[str] = set()
        self._served: dict[str, object] = {}

    def observe(self, collection: str, event: Event) -> bool:
        """Serve a definition the moment it is stored; its status follows. Whether there is work now."""
        if collection == DEFINITIONS:
            record = event.new
            if record is None:
                self._withdraw(event.old)
            else:
                self._serve(record)
                self._due.add(record.name)
            return bool(self._due)
        if event.new is None and self._has_dying_definition(collection):
            return True
        return bool(self._due)

    def load(self) -> None:
        """Serve every definition that a journal brought back."""
        for record in self._kernel.store.collection(DEFINITIONS).after(None):
            self._serve(record)

    def _serve(self, record: Record) -> None:
        crd = self._decode(record)
        spec = crd["spec"]
        if self._served.get(record.name) == (spec, record.deleting):
            return
        self._served[record.name] = (spec, record.deleting)
        group, plural = spec["group"], spec["names"]["plural"]
        if not record.deleting and not self._names_are_free(crd):
            self._kernel.registry.replace(group, plural, (), None)
            return
        converter = self._converters.get((group, spec["names"]["kind"]))
        served = [replace(one, terminating=record.deleting) for one in resources(crd)]
        self._kernel.registry.replace(group, plural, served, converter)
        self._open(f"{group}/{plural}")
        self._reshape(f"{group}/{plural}")

    def _open(self, collection: str) -> None:
        """A kind has no history from before it was defined."""
        store = self._kernel.store
        if collection not in store.collections:
            store.collection(collection).compacted = store.revision

    def _reshape(self, collection: str) -> None:
        """Stored objects are read by the schema of now: defaults appear, unknown fields go, versions stay."""
        resource = self._writer.resource_of(collection)
        if resource is None or not resource.is_stored:
            return
        records = self._kernel.store.collection(collection).records
        for key, record in list(records.items()):
            obj = self._kernel.decode(record, resource)
            prune(obj, resource.schema)
            resource.strategy.default(obj)
            body = encode_json(obj)
            if body != record.body:
                records[key] = self._kernel.restored(obj, body, resource.strategy.selectable(obj))

    def _names_are_free(self, crd: Object) -> bool:
        """Whether nobody else is served under one of the names."""
        status = established(crd, self._kernel.registry.all(), self._kernel.timestamp())
        return any(one["type"] == "Established" and one["status"] == "True" for one in status["conditions"])

    def _withdraw(self, record: Record | None) -> None:
        if record is None:
            return
        spec = self._decode(record)["spec"]
        self._served.pop(record.name, None)
        self._kernel.registry.replace(spec["group"], spec["names"]["plural"], (), None)
        for other in list(self._kernel.store.collection(DEFINITIONS).after(None)):
            if other.name.endswith(f".{spec['group']}") and not other.deleting:
                self._served.pop(other.name, None)  # its names may be free now
                self._serve(other)
                self._due.add(other.name)

    def _decode(self, record: Record) -> Object:
        resource = self._writer.resource_of(DEFINITIONS)
        assert resource is not None, "definitions are built in"
        return self._kernel.decode(record, resource)

    def _has_dying_definition(self, collection: str) -> bool:
        group, _, plural = collection.partition("/")
        record = self._kernel.store.get(DEFINITIONS, "", f"{plural}.{group}")
        if record is not None and record.deleting:
            self._due.add(record.name)
            return True
        return False

    async def process(self) -> bool:
        """Whether something was refused and is to be tried again."""
        refused = False
        for name in sorted(self._due):
            self._due.discard(name)
            record = self._kernel.store.get(DEFINITIONS, "", name)
            if record is None:
                continue
            if not record.deleting:
                await self._report(record)
            elif not await self._clean_up(record):
                self._due.add(name)
                refused = True
        return refused

    async def _report(self, record: Record) -> None:
        """Write accepted names and conditions."""
        resource = self._writer.resource_of(DEFINITIONS)
        assert resource is not None, "definitions are built in"
        now = self._kernel.timestamp()

        def transform(crd: Object) -> Object:
            crd["status"] = established(crd, self._kernel.registry.all(), now)
            return crd

        await self._writer.change(resource, record.key, transform)

    async def _clean_up(self, record: Record) -> bool:
        """Delete what is left; False when a rule refused a deletion."""
        crd = self._decode(record)
        if CLEANUP not in (crd["metadata"].get("finalizers") or ()):
            return True
        refused = False
        collection = f"{crd['spec']['group']}/{crd['spec']['names']['plural']}"
        custom = self._writer.resource_of(collection)
        if custom is not None and self._kernel.store.collection(custom.collection).records:
            for instance in list(self._kernel.store.collection(collection).after(None)):
                if not instance.deleting:
                    try:
                        await self._writer.remove(custom, instance, "Background")
                    except ApiError:
                        refused = True
            if self._kernel.store.collection(collection).records:
                return not refused
        resource = self._writer.resource_of(DEFINITIONS)
        assert resource is not None, "definitions are built in"
        await self._writer.change(resource, record.key, _without_cleanup)
        return True


def _without_cleanup(crd: Object) -> Object:
    meta = crd["metadata"]
    meta["finalizers"] = [one for one in meta.get("finalizers") or () if one != CLEANUP]
    if not meta["finalizers"]:
        del meta["finalizers"]
    return crd
