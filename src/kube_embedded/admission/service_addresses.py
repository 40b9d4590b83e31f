"""Addresses of Services: each gets one of its own, and ports of the nodes where it wants them, and keeps them.

Nothing routes to these addresses: there is no network behind a simulated node.
"""

from __future__ import annotations

from functools import cache, lru_cache

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Verdict
from kube_embedded.base.http import decode_json
from kube_embedded.base.store import Store
from kube_embedded.builtins.kinds.services import assign_cluster_ip, assign_node_ports, keep_addresses

_UNCHANGED = Verdict()


class ServiceAddresses:
    """An admission plug-in: it gives addresses to Services that have none and refuses those that are taken."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.resource == "services"
            and not request.group
            and not request.subresource
            and request.operation in ("CREATE", "UPDATE")
        )

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        service = request.object
        if service is None:
            return _UNCHANGED
        used = cache(lambda: self._used(request.namespace, request.name))  # headless ones never ask
        spec = {**service["spec"], "ports": [dict(port) for port in service["spec"].get("ports") or ()]}
        changed: Object = {**service, "spec": spec}
        if request.old_object is not None:
            keep_addresses(changed, request.old_object)
        if not spec["ports"]:
            del spec["ports"]
        assign_cluster_ip(changed, lambda address: address in used()[0])
        assign_node_ports(changed, lambda port: port in used()[1])
        return Verdict(object=changed)

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return _UNCHANGED

    def _used(self, namespace: str, name: str) -> tuple[set[str], set[int]]:
        """Addresses and node ports of all other Services."""
        addresses: set[str] = set()
        ports: set[int] = set()
        for record in self._store.collection("/services").after(None):
            if (record.namespace, record.name) == (namespace, name):
                continue
            taken = _taken(record.body)
            addresses.update(taken[0])
            ports.update(taken[1])
        return addresses, ports


@lru_cache(maxsize=16_384)
def _taken(body: bytes) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Addresses and node ports of one Service: every new one is compared with all others."""
    spec = decode_json(body).get("spec") or {}
    ports = (port.get("nodePort") for port in spec.get("ports") or ())
    return tuple(spec.get("clusterIPs") or ()), tuple(port for port in ports if port)
