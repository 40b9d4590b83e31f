"""Services (types, ports, cluster addresses) and the addresses behind them: Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Callable
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, required
from kube_embedded.base.errors import invalid as refused
from kube_embedded.base.resource import Context
from kube_embedded.builtins.common.field_checks import (
    check_enum,
    check_key,
    check_label,
    check_port,
    check_port_number,
    check_subdomain,
    immutable,
    unsupported,
)
from kube_embedded.builtins.common.metadata import LABEL, GoInternal, validate_labels
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, UNSET, cell, labels_cell, table, wide
from kube_embedded.builtins.common.rules import Rules

_SHOWN_ENDPOINTS = 3


def _default_endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _addresses(obj: Object) -> str:
    shown: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        for port in subset.get("ports") or ():
            shown += [f"{address}:{port.get('port', 0)}" for address in addresses]
        if not subset.get("ports"):
            shown += addresses
    return _shortened(shown)


def _shortened(shown: list[str]) -> str:
    if not shown:
        return NONE
    rest = len(shown) - _SHOWN_ENDPOINTS
    return ",".join(shown[:_SHOWN_ENDPOINTS]) + (f" + {rest} more..." if rest > 0 else "")


ENDPOINTS = Rules(
    component="io.k8s.api.core.v1.Endpoints",
    table=table(NAME, cell("Endpoints", _addresses), AGE),
    defaults=_default_endpoints,
)


def _default_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _slice_changed(obj: Object, old: Object) -> bool:
    def content(one: Object) -> Any:
        return [one["metadata"].get("labels"), one.get("endpoints"), one.get("ports"), one.get("addressType")]

    return bool(content(obj) != content(old))


def _slice_ports(obj: Object) -> str:
    ports = [str(port["port"]) if port.get("port") is not None else "*" for port in obj.get("ports") or ()]
    return _shortened(ports) if ports else UNSET


def _slice_addresses(obj: Object) -> str:
    addresses = [one for endpoint in obj.get("endpoints") or () for one in endpoint.get("addresses") or ()]
    return _shortened(addresses) if addresses else UNSET


ENDPOINT_SLICES = Rules(
    component="io.k8s.api.discovery.v1.EndpointSlice",
    table=table(
        NAME,
        cell("AddressType", "addressType"),
        cell("Ports", _slice_ports),
        cell("Endpoints", _slice_addresses),
        AGE,
    ),
    defaults=_default_slice,
    check_update=lambda obj, old: immutable("addressType", obj.get("addressType"), old.get("addressType")),
    bumps=_slice_changed,
)


CLUSTER_RANGE = ipaddress.IPv4Network("10.96.0.0/16")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_ROUTED = ("ClusterIP", "LoadBalancer", "NodePort")
_ROUTED_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def _default_service(service: Object) -> None:
    spec = service["spec"]
    if spec.setdefault("sessionAffinity", "None") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    kind = spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in _ROUTED:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _complete_addresses(service: Object) -> None:
    """`clusterIP` is always the first of `clusterIPs`; one family, IPv4, is what the cluster has. Nobody owns these."""
    spec = service["spec"]
    kind = spec.get("type")
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if kind in _ROUTED:
        headless = spec.get("clusterIP") == "None"
        selectorless = headless and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if selectorless else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if selectorless else "SingleStack")


def assign_cluster_ip(service: Object, is_taken: Callable[[str], bool]) -> None:
    """Give a service that needs one a free address of the cluster range; the same name tends to get the same one.

    Raises ApiError 422 when the service asks for an address that it cannot have.
    """
    spec, meta = service["spec"], service["metadata"]
    wanted = spec.get("clusterIP", "")
    if spec.get("type") not in _ROUTED or wanted == "None":
        return
    if wanted:
        _take_cluster_ip(meta.get("name", ""), wanted, is_taken)
        return
    size = CLUSTER_RANGE.num_addresses - 2
    # From the name: the same manifests get the same addresses again, also after a restart without state.
    start = zlib.crc32(f"{meta.get('namespace', '')}/{meta.get('name', '')}".encode()) % size
    for step in range(size):
        address = str(CLUSTER_RANGE[1 + (start + step) % size])
        if not is_taken(address):
            spec["clusterIP"] = address
            spec["clusterIPs"] = [address]
            return


def _take_cluster_ip(name: str, wanted: str, is_taken: Callable[[str], bool]) -> None:
    if ipaddress.ip_address(wanted) not in CLUSTER_RANGE:
        why = "the provided network does not match the current range"
    elif is_taken(wanted):
        why = "provided IP is already allocated"
    else:
        return
    detail = f"failed to allocate IP {wanted}: {why}"
    raise refused("", "Service", name, [invalid("spec.clusterIPs", [wanted], detail)])


def assign_node_ports(service: Object, is_taken: Callable[[int], bool]) -> None:
    """Give every port of a NodePort or LoadBalancer service a free port of the nodes (30000-32767)."""
    spec = service["spec"]
    wanted = spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    )
    if not wanted:
        return
    given = {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    meta = service["metadata"]
    candidate = zlib.crc32(f"{meta.get('namespace', '')}/{meta.get('name', '')}".encode()) % 2768
    for port in spec.get("ports") or ():
        while not port.get("nodePort"):
            number = 30000 + candidate % 2768
            candidate += 1
            if number not in given and not is_taken(number):
                port["nodePort"] = number
                given.add(number)


def _on_create(service: Object, context: Context) -> None:
    _complete_addresses(service)


def _on_update(service: Object, old: Object, context: Context) -> None:
    keep_addresses(service, old)
    _complete_addresses(service)


def keep_addresses(service: Object, old: Object) -> None:
    """An update that does not mention the addresses keeps them; a change to ExternalName gives them up."""
    spec, was = service["spec"], old["spec"]
    if spec.get("clusterIP") != was.get("clusterIP") and spec.get("clusterIPs") == was.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
    if spec.get("type") == "ExternalName":
        if was.get("type") != "ExternalName":
            for name in _ROUTED_FIELDS:
                if spec.get(name) == was.get(name):
                    spec.pop(name, None)
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        if not spec.get(name) and was.get(name):
            spec[name] = was[name]
    if spec.get("type") in ("NodePort", "LoadBalancer") and was.get("type") in ("NodePort", "LoadBalancer"):
        _keep_node_ports(spec, was)


def _keep_node_ports(spec: Object, was: Object) -> None:
    known = {
        (port["port"], port.get("protocol")): port["nodePort"]
        for port in was.get("ports") or ()
        if port.get("nodePort")
    }
    for port in spec.get("ports") or ():
        number = known.get((port["port"], port.get("protocol")))
        if not port.get("nodePort") and number:
            port["nodePort"] = number


def _check_service(service: Object) -> list[FieldError]:
    spec = service["spec"]
    kind, ports = spec["type"], spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    errors: list[FieldError] = []
    if not ports and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind == "LoadBalancer" and headless:
        errors.append(invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for LoadBalancer services"))
    if kind == "NodePort" and headless:
        errors.append(invalid("spec.clusterIPs[0]", "None", "may not be set to 'None' for NodePort services"))
    if kind == "ExternalName":
        errors += _check_external_name(spec)
    errors += _check_ports(ports)
    errors += validate_labels(spec.get("selector") or {}, "spec.selector")
    affinity = spec["sessionAffinity"]
    if affinity not in ("ClientIP", "None"):
        errors.append(unsupported("spec.sessionAffinity", affinity, ("ClientIP", "None")))
    errors += _check_addresses(spec)
    return errors + check_enum("spec.type", kind, _TYPES)


def _check_external_name(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("clusterIPs"):
        errors.append(forbidden("spec.clusterIPs", "may not be set when `type` is 'ExternalName'"))
    if not spec.get("externalName"):
        return [*errors, required("spec.externalName")]
    return errors + check_subdomain("spec.externalName", spec["externalName"].rstrip("."))


def _check_ports(ports: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"spec.ports[{index}]"
        name = port.get("name", "")
        if len(ports) > 1 and not name:
            errors.append(required(f"{where}.name"))
        elif name:
            errors += check_label(f"{where}.name", name)
            if name in names:
                errors.append(duplicate(f"{where}.name", name))
            names.add(name)
        errors += check_port_number(f"{where}.port", port["port"])
        errors += check_enum(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)
        errors += check_port(f"{where}.targetPort", port["targetPort"])
        if port.get("appProtocol"):
            errors += check_key(f"{where}.appProtocol", port["appProtocol"])
        key = (port.get("protocol"), port["port"])
        if key in [(other.get("protocol"), other["port"]) for other in ports[:index]]:
            errors.append(duplicate(where, _internal_port(port)))
    return errors


def _internal_port(port: Object) -> GoInternal:
    """What makes a port unique."""
    protocol, number = port.get("protocol", ""), port["port"]
    named = {"Name": "", "Protocol": protocol, "AppProtocol": None}
    return GoInternal({**named, "Port": number, "TargetPort": 0, "NodePort": 0})


def _check_addresses(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address not in ("", "None") and not _is_address(address):
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            errors.append(invalid(f"spec.clusterIPs[{index}]", address, detail))
    if spec.get("clusterIPs") and spec.get("clusterIP", "") != spec["clusterIPs"][0]:
        errors.append(invalid("spec.clusterIPs", spec["clusterIPs"], "first value must match `clusterIP`"))
    return errors


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_service_update(service: Object, old: Object) -> list[FieldError]:
    spec, was = service["spec"], old["spec"]
    if "ExternalName" in (spec["type"], was.get("type")) or not was.get("clusterIPs"):
        return []
    if (spec.get("clusterIPs") or [""])[0] != was["clusterIPs"][0]:
        return [invalid("spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set")]
    return []


def _check_service_status(service: Object, old: Object) -> list[FieldError]:
    if service["spec"].get("type") == "LoadBalancer" or not service["status"]["loadBalancer"].get("ingress"):
        return []
    detail = "may only be used when `spec.type` is 'LoadBalancer'"
    return [forbidden("status.loadBalancer.ingress", detail)]


def _cluster_cell(service: Object) -> str:
    addresses: list[str] = service["spec"].get("clusterIPs") or [NONE]
    return addresses[0]


def _ports_cell(service: Object) -> str:
    return ",".join(_port_cell(port) for port in service["spec"].get("ports") or ()) or NONE


def _port_cell(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', '')}"


def _external_cell(service: Object) -> str:
    spec = service["spec"]
    addresses = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(addresses) or NONE
        case "LoadBalancer":
            ingress = (service.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
            shown = sorted({one.get("ip") or one.get("hostname", "") for one in ingress} - {""})
            return ",".join([*shown, *addresses]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


SERVICES = Rules(
    component="io.k8s.api.core.v1.Service",
    table=table(
        NAME,
        cell("Type", "spec.type"),
        cell("Cluster-IP", _cluster_cell),
        cell("External-IP", _external_cell),
        cell("Port(s)", _ports_cell),
        AGE,
        wide(cell("Selector", lambda service: labels_cell(service["spec"].get("selector")))),
    ),
    naming=LABEL,
    defaults=_default_service,
    on_create=_on_create,
    on_update=_on_update,
    check=_check_service,
    check_update=_check_service_update,
    check_status=_check_service_status,
    fields=lambda service: {
        "spec.clusterIP": service["spec"].get("clusterIP", ""),
        "spec.type": service["spec"].get("type", ""),
    },
    has_status=True,
)
