"""Endpoints and EndpointSlices: the addresses behind services."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError, invalid, required
from kube_embedded.base.resource import Column, Context
from kube_embedded.builtins.common.field_checks import check_enum, check_label, check_port_number
from kube_embedded.builtins.common.printing import AGE, NAME, NONE, UNSET, age
from kube_embedded.builtins.common.rules import Rules

_SHOWN_ENDPOINTS = 3


def _default_endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _endpoints_row(obj: Object, context: Context) -> list[Any]:
    shown: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        for port in subset.get("ports") or ():
            shown += [f"{address}:{port.get('port', 0)}" for address in addresses]
        if not subset.get("ports"):
            shown += addresses
    return [obj["metadata"]["name"], _shortened(shown), age(obj, context)]


def _shortened(shown: list[str]) -> str:
    if not shown:
        return NONE
    rest = len(shown) - _SHOWN_ENDPOINTS
    return ",".join(shown[:_SHOWN_ENDPOINTS]) + (f" + {rest} more..." if rest > 0 else "")


def _check_endpoints(obj: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, subset in enumerate(obj.get("subsets") or ()):
        path, ports = f"subsets[{index}]", subset.get("ports") or []
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for at, port in enumerate(ports):
            where = f"{path}.ports[{at}]"
            if len(ports) > 1 and not port.get("name"):
                errors.append(required(f"{where}.name"))
            elif port.get("name"):
                errors += check_label(f"{where}.name", port["name"])
            errors += check_port_number(f"{where}.port", port.get("port", 0))
    return errors


ENDPOINTS = Rules(
    component="io.k8s.api.core.v1.Endpoints",
    columns=(NAME, Column("Endpoints"), AGE),
    cells=_endpoints_row,
    defaults=_default_endpoints,
    check=_check_endpoints,
)


def _default_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _check_slice(obj: Object) -> list[FieldError]:
    allowed = ("FQDN", "IPv4", "IPv6")
    errors = check_enum("addressType", obj.get("addressType"), allowed)
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            errors.append(required(f"endpoints[{index}].addresses", "must contain at least 1 address"))
    return errors


def _check_slice_update(obj: Object, old: Object) -> list[FieldError]:
    same = obj.get("addressType") == old.get("addressType")
    return [] if same else [invalid("addressType", obj.get("addressType"), "field is immutable")]


def _slice_changed(obj: Object, old: Object) -> bool:
    def content(one: Object) -> Any:
        return [one["metadata"].get("labels"), one.get("endpoints"), one.get("ports"), one.get("addressType")]

    return bool(content(obj) != content(old))


def _slice_row(obj: Object, context: Context) -> list[Any]:
    ports = [str(port["port"]) if port.get("port") is not None else "*" for port in obj.get("ports") or ()]
    addresses = [one for endpoint in obj.get("endpoints") or () for one in endpoint.get("addresses") or ()]
    return [
        obj["metadata"]["name"],
        obj.get("addressType", ""),
        _shortened(ports) if ports else UNSET,
        _shortened(addresses) if addresses else UNSET,
        age(obj, context),
    ]


ENDPOINT_SLICES = Rules(
    component="io.k8s.api.discovery.v1.EndpointSlice",
    columns=(NAME, Column("AddressType"), Column("Ports"), Column("Endpoints"), AGE),
    cells=_slice_row,
    defaults=_default_slice,
    check=_check_slice,
    check_update=_check_slice_update,
    bumps=_slice_changed,
)
