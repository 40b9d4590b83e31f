"""Cluster addresses of Services: each gets one of its own from a fixed range, in order, and keeps it.

Nothing routes to these addresses: there is no network behind a simulated node.
"""

from __future__ import annotations

import ipaddress

from spinney.api.admission import AdmissionRequest, Lookup, Object, Verdict
from spinney.api.field_errors import invalid
from spinney.serve.apiserver.http import decode_json
from spinney.serve.apiserver.store import Store

RANGE = ipaddress.ip_network("10.96.0.0/16")
_FIRST = 10  # the lowest ones are for those who ask for one by name
_UNCHANGED = Verdict()


class ServiceAddresses:
    """An admission plug-in: it gives addresses to new Services and refuses those that are taken."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource == "services" and not request.group and not request.subresource

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        service = request.object
        if service is None or not _wants_address(service):
            return _UNCHANGED
        spec = service["spec"]
        if spec.get("clusterIP"):
            return _UNCHANGED
        used = self._used(request.namespace, request.name)
        address = next(str(one) for one in list(RANGE.hosts())[_FIRST:] if str(one) not in used)
        return Verdict(object={**service, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}})

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        service = request.object
        if service is None or request.operation != "CREATE" or not _wants_address(service):
            return _UNCHANGED
        address = service["spec"].get("clusterIP", "")
        why = ""
        if address in self._used(request.namespace, request.name):
            why = f"failed to allocate IP {address}: provided IP is already allocated"
        elif not _in_range(address):
            why = f"failed to allocate IP {address}: the provided IP is not in the valid range. The range is {RANGE}"
        if not why:
            return _UNCHANGED
        return Verdict(allowed=False, errors=(invalid("spec.clusterIPs", [address], why),))

    def _used(self, namespace: str, name: str) -> set[str]:
        """Addresses of all other Services."""
        found: set[str] = set()
        for record in self._store.collection("/services").after(None):
            if (record.namespace, record.name) != (namespace, name):
                found.update((decode_json(record.body).get("spec") or {}).get("clusterIPs") or ())
        return found


def _wants_address(service: Object) -> bool:
    spec = service.get("spec") or {}
    return spec.get("type", "ClusterIP") != "ExternalName" and spec.get("clusterIP") != "None"


def _in_range(address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in RANGE
    except ValueError:
        return False
