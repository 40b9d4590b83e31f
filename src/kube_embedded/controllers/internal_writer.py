"""Writes that the server makes by itself, by the same way as those of clients but without asking webhooks."""

from __future__ import annotations

from kube_embedded.base.errors import ApiError
from kube_embedded.base.http import Target
from kube_embedded.base.identity import Identity
from kube_embedded.base.resource import Resource
from kube_embedded.base.store import Key, Record
from kube_embedded.requests.deletion import DeleteOptions, delete
from kube_embedded.requests.kernel import Call, Kernel
from kube_embedded.requests.writing import Transform, save_changed

CONTROLLER = Identity("system:kube-controller-manager", groups=("system:masters", "system:authenticated"))


class InternalWriter:
    """Change and remove objects on the server's own behalf."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def resource_of(self, collection: str) -> Resource | None:
        return self._kernel.registry.of_collection(collection)

    def call(self, resource: Resource, key: Key) -> Call:
        target = Target(resource.group, resource.version, resource.plural, key[0], key[1])
        return Call(resource, target, {}, CONTROLLER, "kube-controller-manager")

    async def change(self, resource: Resource, key: Key, transform: Transform) -> None:
        """Rewrite an object if it is still there; not being there is no mistake."""
        record = self._kernel.store.get(resource.collection, *key)
        if record is None:
            return
        old = self._kernel.decode(record, resource)
        new = transform(self._kernel.decode(record, resource))
        save_changed(self._kernel, self.call(resource, key), new, old)

    async def remove(self, resource: Resource, record: Record, policy: str) -> None:
        """Delete an object if it is still the same one."""
        options = DeleteOptions(uid=record.uid, propagation=policy)
        try:
            await delete(self._kernel, self.call(resource, record.key), options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
