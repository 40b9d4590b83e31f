"""Checks of resource requirements: names, quantities, and requests against limits."""

from __future__ import annotations

from functools import lru_cache

from kube_apimachinery import name_validation, quantity
from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import ErrorType, FieldError, forbidden, invalid, required
from kube_embedded.builtins.common.field_checks import check_quantity
from kube_embedded.builtins.common.metadata import key_complaints

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_OTHER_STANDARD = frozenset(
    {
        "configmaps",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    }
)
_NATIVE = "kubernetes.io/"
_HUGE = "hugepages-"


def is_native(name: str) -> bool:
    """Whether Kubernetes itself counts this resource (and not a device plugin)."""
    return "/" not in name or _NATIVE in name


def is_extended(name: str) -> bool:
    return (
        not is_native(name)
        and not name.startswith("requests.")
        and not name_validation.qualified_name(f"requests.{name}")
    )


@lru_cache(maxsize=1024)
def _name_complaints(name: str) -> tuple[str, ...]:
    """What is wrong with the name of a container resource."""
    complaints = key_complaints(name)
    if complaints and "/" not in name:
        return complaints
    if "/" not in name:
        if name in _CONTAINER or name.startswith(_HUGE):
            return ()
        standard = "must be a standard resource for containers"
        known = name in _OTHER_STANDARD
        return (standard,) if known else ("must be a standard resource type or fully qualified", standard)
    if not is_native(name) and not is_extended(name):
        return (*complaints, "doesn't follow extended resource name standard")
    return complaints


def check_requirements(path: str, resources: Object, pod_claims: frozenset[str]) -> list[FieldError]:
    """Limits, requests and claims of a container."""
    limits, requests = resources.get("limits"), resources.get("requests")
    if "claims" not in resources and _all_fine(tuple((limits or {}).items()), tuple((requests or {}).items())):
        return []
    return _check_all(path, limits, requests, resources.get("claims"), pod_claims)


Amounts = tuple[tuple[str, str], ...]


@lru_cache(maxsize=2048)
def _all_fine(limits: Amounts, requests: Amounts) -> bool:
    """Few combinations are in use at a time, and nearly all of them are in order."""
    return not _check_all("", dict(limits), dict(requests), None, frozenset())


def _check_all(
    path: str,
    limits: dict[str, str] | None,
    requests: dict[str, str] | None,
    claims: list[Object] | None,
    pod_claims: frozenset[str],
) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in (limits or {}).items():
        errors += _check_amount(f"{path}.limits", name, value)
    for name, value in (requests or {}).items():
        errors += _check_amount(f"{path}.requests", name, value)
        errors += _check_against_limit(path, name, value, limits or {})
    named = (limits or {}).keys() | (requests or {}).keys()
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if claims:
        errors += _check_claims(f"{path}.claims", claims, pod_claims)
    return errors


def _check_amount(path: str, name: str, value: str) -> list[FieldError]:
    where = f"{path}[{name}]"
    return [invalid(where, name, text) for text in _name_complaints(name)] + check_resource_value(where, name, value)


@lru_cache(maxsize=4096)
def _fine(name: str, value: str) -> bool:
    if quantity.compare(value, "0") < 0 or name.startswith(_HUGE):
        return False
    return not is_extended(name) or quantity.milli(value) % 1000 == 0


def check_resource_value(path: str, name: str, value: str) -> list[FieldError]:
    """A quantity that must not be negative, and whole where the resource is counted in devices."""
    if _fine(name, value):
        return []
    errors = check_quantity(path, value)
    if name.startswith(_HUGE):
        errors += _check_huge_pages(path, name, value)
    if is_extended(name) and quantity.milli(value) % 1000:
        errors.append(invalid(path, value, "must be an integer"))
    return errors


def _check_huge_pages(path: str, name: str, value: str) -> list[FieldError]:
    size = name.removeprefix(_HUGE)
    if not quantity.is_valid(size) or quantity.base_units(size, True) <= 0:
        return []
    if quantity.milli(value) % quantity.milli(size) == 0:
        return []
    return [invalid(path, value, f"{value} is not positive integer multiple of {name}")]


def _check_against_limit(path: str, name: str, value: str, limits: dict[str, str]) -> list[FieldError]:
    limit = limits.get(name)
    overcommits = is_native(name) and not name.startswith(_HUGE)
    if limit is None:
        return [] if overcommits else [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if value == limit:
        return []
    order = quantity.compare(value, limit)
    if not overcommits and order:
        return [invalid(f"{path}.requests", value, f"must be equal to {name} limit of {limit}")]
    if order > 0:
        return [invalid(f"{path}.requests", value, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _check_claims(path: str, claims: list[Object], pod_claims: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, claim in enumerate(claims):
        name = claim.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}]"))
        elif name not in pod_claims:
            listed = ",".join(sorted(pod_claims)) if pod_claims else "which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims {listed}"
            errors.append(FieldError(f"{path}[{index}]", ErrorType.NOT_FOUND, name, detail))
    return errors
