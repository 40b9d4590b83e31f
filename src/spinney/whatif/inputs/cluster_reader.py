"""Reads a live cluster for admission rules through the client; nothing is cached and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kube_apimachinery.admission import Object
from kube_apimachinery.name_validation import dns_label, dns_subdomain
from spinney.api.crds.catalog import DEFINITIONS
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import NotFound
from spinney.drive.client.paths import ResourcePath

_PATHS = {
    (one.stored.GROUP, one.stored.PLURAL): ResourcePath(
        one.stored.GROUP, one.stored.VERSION, one.stored.PLURAL, one.stored.NAMESPACED
    )
    for one in DEFINITIONS
} | {("", "pods"): ResourcePath("", "v1", "pods")}


class ClusterReader:
    """Reads our kinds and pods. A kind that is not served, or a name that no server accepts, has no objects."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        if dns_subdomain(name) or (namespace and dns_label(namespace)):
            return None
        try:
            return await self._client.get(_PATHS[group, plural].ref(name, namespace))
        except NotFound:
            return None

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        try:
            listing = await self._client.list(Selection(_PATHS[group, plural], namespace, chosen))
        except NotFound:
            return ()
        return listing.items
