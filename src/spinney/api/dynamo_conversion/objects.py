"""Whole DynamoGraphDeployments between v1alpha1 and v1beta1, without loss.

Conversion never looks anything up and never changes its argument.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from spinney.api import labels
from spinney.api.dynamo_conversion import components, preserved_fields
from spinney.api.dynamo_conversion.preserved_fields import Kept, KeptPart, Part

Object = dict[str, Any]

ALPHA = "nvidia.com/v1alpha1"
BETA = "nvidia.com/v1beta1"
_CONVERTED = ("apiVersion", "metadata", "spec", "status")
_MISSHAPEN = (AttributeError, IndexError, KeyError, TypeError, ValueError)
_SAME = ("annotations", "labels", "priorityClassName", "backendFramework", "restart")
_ONLY_ALPHA = ("pvcs",)
_ONLY_BETA = ("providerOverride", "experimental")
_STATUS_SAME = ("observedGeneration", "state", "conditions", "restart", "checkpoints", "placement")


class ConversionError(ValueError):
    """The object is not a DynamoGraphDeployment in a version we know."""


_NEWER_OF_SPEC = ("env", "experimental", "providerOverride")
_NEWER_OF_COMPONENT = (
    "type",
    "podTemplate",
    "sharedMemorySize",
    "compilationCache",
    "runtimeVersionOverride",
    "providerOverride",
    "experimental",
)


def convert(obj: Object, desired: str) -> Object:
    """The object in the desired apiVersion."""
    current = obj.get("apiVersion")
    if current == desired and desired in (ALPHA, BETA):
        return copy.deepcopy(obj)
    if (current, desired) == (ALPHA, BETA):
        return to_beta(obj)
    if (current, desired) == (BETA, ALPHA):
        return to_alpha(obj)
    raise ConversionError(f"cannot convert DynamoGraphDeployment from {current!r} to {desired!r}")


def to_beta(obj: Object) -> Object:
    """v1alpha1 to v1beta1."""
    return _converted(obj, _Way(ALPHA, BETA, _beta_spec, _alpha_spec, _beta_status, _alpha_status))


def to_alpha(obj: Object) -> Object:
    """v1beta1 to v1alpha1."""
    return _converted(obj, _Way(BETA, ALPHA, _alpha_spec, _beta_spec, _alpha_status, _beta_status))


def from_list_form(obj: Object) -> Object:
    """The design document's form, `services` as a list with names, to v1beta1. Its services may use words of both."""
    alpha = copy.deepcopy(obj)
    services = (alpha.get("spec") or {}).get("services")
    if not isinstance(services, list) or not all(isinstance(one, dict) and one.get("name") for one in services):
        raise ConversionError("spec.services: expected a list of services, each with a name")
    if len({one["name"] for one in services}) < len(services):
        raise ConversionError("spec.services: expected each name once")
    order = [one["name"] for one in services]
    newer = {one["name"]: _taken(one, _NEWER_OF_COMPONENT) for one in services}
    alpha |= {"apiVersion": ALPHA}
    of_spec = _taken(alpha["spec"], _NEWER_OF_SPEC)
    alpha["spec"]["services"] = {one.pop("name"): one for one in services}
    beta = to_beta(alpha)
    beta["spec"] |= of_spec
    beta["spec"]["components"] = [{**one, **newer[one["name"]]} for one in beta["spec"]["components"]]
    beta["spec"]["components"].sort(key=lambda one: order.index(one["name"]))
    return beta


def _taken(part: Part, keys: tuple[str, ...]) -> Part:
    return {key: part.pop(key) for key in keys if key in part}


Spec = Callable[[Part, Kept], Part]
Status = Callable[[Part], Part]


@dataclass(frozen=True, slots=True)
class _Way:
    """From one version to another, and back."""

    source: str
    target: str
    spec: Spec
    spec_back: Spec
    status: Status
    status_back: Status


def _converted(obj: Object, way: _Way) -> Object:
    """Leftovers that do not fit are left out: anybody can write an annotation, and the object must stay readable.

    An object may be converted before its schema is checked: a part of the wrong type is its fault, not ours.
    """
    try:
        metadata = copy.deepcopy(obj.get("metadata") or {})
        kept = preserved_fields.take(metadata, labels.DYNAMO_SPEC_LEFTOVERS, way.target)
        kept_status = preserved_fields.take(metadata, labels.DYNAMO_STATUS_LEFTOVERS, way.target)
        try:
            return _attempt(obj, way, copy.deepcopy(metadata), kept, kept_status)
        except _MISSHAPEN:
            return _attempt(obj, way, metadata, preserved_fields.NOTHING, preserved_fields.NOTHING)
    except _MISSHAPEN as error:
        text = "DynamoGraphDeployment does not have the shape of its version"
        raise ConversionError(f"{text} {way.source}: {error!r}") from error


def _attempt(obj: Object, way: _Way, metadata: Part, kept: Kept, kept_status: Kept) -> Object:
    rest = {key: copy.deepcopy(value) for key, value in obj.items() if key not in _CONVERTED}
    result: Object = {"apiVersion": way.target, **rest, "metadata": metadata}
    if "spec" in obj:
        whole = kept.restored(obj["spec"])
        spec = result["spec"] = way.spec(obj["spec"], kept) if whole is None else whole
        preserved_fields.put(metadata, labels.DYNAMO_SPEC_LEFTOVERS, _kept(obj["spec"], spec, way))
    if "status" in obj:
        whole = kept_status.restored(obj["status"])
        status = result["status"] = way.status(obj["status"]) if whole is None else whole
        if way.status_back(status) != obj["status"]:
            kept_status = Kept(of=way.source, digest=preserved_fields.digest(status), whole=obj["status"])
            preserved_fields.put(metadata, labels.DYNAMO_STATUS_LEFTOVERS, kept_status)
    return result


def _kept(original: Part, spec: Part, way: _Way) -> Kept:
    """What must be kept of the original so that the way back finds it: parts if that is enough, else all of it."""
    if way.spec_back(spec, preserved_fields.NOTHING) == original:
        return preserved_fields.NOTHING
    before, after = _parts(original), _parts(spec)
    kept = Kept(
        of=way.source,
        rest={key: original[key] for key in (*_ONLY_ALPHA, *_ONLY_BETA) if key in original},
        parts={
            name: KeptPart(preserved_fields.digest(after[name]), part)
            for name, part in before.items()
            if name in after and not _survives(name, part, after[name])
        },
        order=tuple(before) if "components" in original else (),
    )
    if way.spec_back(spec, kept) == original:
        return kept
    return msgspec.structs.replace(kept, digest=preserved_fields.digest(spec), whole=original)


def _parts(spec: Part) -> dict[str, Part]:
    if "components" in spec:
        return {one["name"]: one for one in spec["components"]}
    return dict(spec.get("services") or {})


def _survives(name: str, part: Part, converted: Part) -> bool:
    if "name" in converted and "name" not in part:
        return components.service_of(converted) == part
    return components.component_of(name, converted) == part


def _beta_spec(spec: Part, kept: Kept) -> Part:
    result = _common(spec, {"envs": "env"}, {"topologyProfile": "clusterTopologyName"})
    result |= _copied(kept.rest, _ONLY_BETA)
    if "services" in spec:
        services = spec["services"] or {}
        found = [
            _restored(kept, name, service, components.component_of(name, service), components.ONLY_BETA)
            for name, service in sorted(services.items())
        ]
        result["components"] = _ordered(found, kept.order)
    return result


def _alpha_spec(spec: Part, kept: Kept) -> Part:
    result = _common(spec, {"env": "envs"}, {"clusterTopologyName": "topologyProfile"})
    result |= _copied(kept.rest, _ONLY_ALPHA)
    if "components" in spec:
        result["services"] = {
            one["name"]: _restored(kept, one["name"], one, components.service_of(one), components.ONLY_ALPHA)
            for one in spec["components"]
        }
    return result


def _common(spec: Part, renamed: dict[str, str], in_constraint: dict[str, str]) -> Part:
    result = _copied(spec, _SAME)
    result |= {new: copy.deepcopy(spec[old]) for old, new in renamed.items() if old in spec}
    if "topologyConstraint" in spec:
        constraint = spec["topologyConstraint"]
        result["topologyConstraint"] = {in_constraint.get(key, key): value for key, value in constraint.items()}
    return result


def _copied(part: Part, keys: tuple[str, ...]) -> Part:
    return {key: copy.deepcopy(part[key]) for key in keys if key in part}


def _restored(kept: Kept, name: str, current: Part, converted: Part, only: components.Paths) -> Part:
    """The part as it was where it is unchanged since; else converted, with what has no counterpart put back."""
    entry = kept.parts.get(name)
    if entry is None:
        return converted
    if entry.digest == preserved_fields.digest(current):
        return copy.deepcopy(entry.part)
    merged = components.keep_unedited(converted, entry.part, _there_and_back(name, entry.part))
    return components.put_back(merged, entry.part, only)


def _there_and_back(name: str, part: Part) -> Part:
    if "name" in part:
        return components.component_of(name, components.service_of(part))
    return components.service_of(components.component_of(name, part))


def _ordered(found: list[Part], order: tuple[str, ...]) -> list[Part]:
    place = {name: index for index, name in enumerate(order)}
    return sorted(found, key=lambda one: (place.get(one["name"], len(place)), one["name"]))


def _beta_status(status: Part) -> Part:
    result = _copied(status, _STATUS_SAME)
    if "services" in status:
        result["components"] = {
            name: {key: copy.deepcopy(value) for key, value in one.items() if key != "componentName"}
            for name, one in status["services"].items()
        }
    if "rollingUpdate" in status:
        result["rollingUpdate"] = _renamed(status["rollingUpdate"], "updatedServices", "updatedComponents")
    return result


def _alpha_status(status: Part) -> Part:
    result = _copied(status, _STATUS_SAME)
    if "components" in status:
        result["services"] = {name: _with_first_name(one) for name, one in status["components"].items()}
    if "rollingUpdate" in status:
        result["rollingUpdate"] = _renamed(status["rollingUpdate"], "updatedComponents", "updatedServices")
    return result


def _with_first_name(status: Part) -> Part:
    named = {"componentName": status["componentNames"][0]} if status.get("componentNames") else {}
    return copy.deepcopy(status) | named


def _renamed(part: Part, old: str, new: str) -> Part:
    return {new if key == old else key: copy.deepcopy(value) for key, value in part.items()}
