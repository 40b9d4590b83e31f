"""The exchange format as it is written: names, types, and what may be left out; plain values are checked for them here.

Null where a field may be left out is the same as leaving it out; what a value means is judged elsewhere.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from spinney.api.documents.limits import show
from spinney.api.placement.problem import VERSION
from spinney.api.placement.reading.fields import Path, Unreadable, refused, too_deep

# Names and types of a document: plain values to wire values, or a refusal that names field, found and allowed.
#
# The decoder says where it stopped and what type it met; the value, and the key of a map, are looked up again here.

Quantities = dict[str, str | int | float]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Fields are spelled in camel case, and there are no others."""


class WireTopology(_Strict, frozen=True):
    name: str
    levels: tuple[str, ...] | None = None
    zones: bool | None = None


class WireTaint(_Strict, frozen=True, gc=False):
    """As on a v1 Node."""

    key: str
    effect: str
    value: str | None = None
    time_added: str | None = None


class WireZone(_Strict, frozen=True):
    name: str
    allocatable: Quantities | None = None
    used: Quantities | None = None
    releasing: Quantities | None = None


class WireNode(_Strict, frozen=True):
    name: str
    labels: dict[str, str] | None = None
    allocatable: Quantities | None = None
    used: Quantities | None = None
    releasing: Quantities | None = None
    taints: tuple[WireTaint, ...] | None = None
    unschedulable: bool | None = None
    ready: bool | None = None
    host_ports: tuple[int, ...] | None = None
    zones: tuple[WireZone, ...] | None = None
    zone_policy: str | None = None


class WireToleration(_Strict, frozen=True, gc=False):
    """As in a pod spec."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class WireTerm(_Strict, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class WireNodeTerm(_Strict, frozen=True):
    match_expressions: tuple[WireTerm, ...] | None = None
    match_fields: tuple[WireTerm, ...] | None = None


class WirePreferredTerm(_Strict, frozen=True):
    weight: int
    preference: WireNodeTerm


class WireNodeSelector(_Strict, frozen=True):
    node_selector_terms: tuple[WireNodeTerm, ...] | None = None


class WireNodeAffinity(_Strict, frozen=True):
    required: WireNodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WirePreferredTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class WireAffinity(_Strict, frozen=True):
    """Affinity between pods is recognised, so that it can be answered; its content is nobody's business here."""

    node_affinity: WireNodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class WireAffinityTerm(_Strict, frozen=True):
    """Which pod sets of the gang a pod set is kept apart from or near to."""

    topology_key: str
    pods: tuple[str, ...]
    weight: int | None = None


class WireNearTerm(_Strict, frozen=True):
    topology_key: str
    pods: tuple[str, ...]
    domains: tuple[str, ...] | None = None
    weight: int | None = None


class WireSpreadConstraint(_Strict, frozen=True):
    topology_key: str
    max_skew: int
    min_domains: int | None = None
    weight: int | None = None


class WirePodSet(_Strict, frozen=True):
    name: str
    count: int | None = None
    min: int | None = None
    request: Quantities | None = None
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[WireToleration, ...] | None = None
    affinity: WireAffinity | None = None
    host_ports: tuple[int, ...] | None = None
    anti_affinity: tuple[str, ...] | None = None
    pod_anti_affinity: tuple[WireAffinityTerm, ...] | None = None
    pod_affinity: tuple[WireNearTerm, ...] | None = None
    topology_spread_constraints: tuple[WireSpreadConstraint, ...] | None = None


class WireGroup(_Strict, frozen=True):
    name: str
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    min_groups: int | None = None
    groups: tuple[WireGroup, ...] | None = None
    pods: tuple[WirePodSet, ...] | None = None


class WireTie(_Strict, frozen=True):
    gang: str
    level: str


class WireRunning(_Strict, frozen=True, gc=False):
    pods: str
    node: str
    zone: str | None = None


class WireGang(_Strict, frozen=True):
    name: str
    priority: int | None = None
    preemptible: bool | None = None
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None
    min_groups: int | None = None
    tied_to: WireTie | None = None
    groups: tuple[WireGroup, ...] | None = None
    pods: tuple[WirePodSet, ...] | None = None
    running: tuple[WireRunning, ...] | None = None


class WireConsolidate(_Strict, frozen=True):
    max_moves: int | None = None
    max_loss: float | None = None


class WireOptions(_Strict, frozen=True):
    strategy: str | None = None
    budget: int | None = None
    preempt: bool | None = None
    extras: str | None = None
    consolidate: WireConsolidate | None = None


class WireProblem(_Strict, frozen=True):
    version: int
    resources: tuple[str, ...]
    nodes: tuple[WireNode, ...]
    gangs: tuple[WireGang, ...]
    topologies: tuple[WireTopology, ...] | None = None
    options: WireOptions | None = None


_PLACE = re.compile(r"(.*?)(?: - at (`key` in )?`\$([^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`")
_TEXT = "a text"
_QUANTITY = "a quantity such as 8, 500m or 32Gi"
_ALLOWED = {
    "str": _TEXT,
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_TEXT_MAPS = ("labels", "nodeSelector")


def structured(document: Any) -> WireProblem:
    """The version is judged first: what else is wrong with a document of another version is not known here."""
    if not isinstance(document, dict):
        raise refused((), document, "an object with version, resources, nodes and gangs")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise refused(("version",), version, str(VERSION))
    try:
        return msgspec.convert(document, WireProblem)
    except RecursionError:
        raise too_deep(_endless(document)) from None
    except UnicodeEncodeError as error:
        raise refused((), error.object, "texts that can be written in UTF-8") from None
    except msgspec.ValidationError as error:
        raise _refusal(document, str(error)) from None


def _refusal(document: Any, words: str) -> Unreadable:
    place = _PLACE.fullmatch(words)
    assert place is not None  # every part of the pattern may be empty
    message, key, steps = place.groups()
    path = _path(steps or "")
    if unknown := _UNKNOWN.fullmatch(message):
        return Unreadable((*path, unknown[1]), "unknown field")
    if missing := _MISSING.fullmatch(message):
        return refused((*path, missing[1]), None, "it has to be there")
    container = _at(document, path)
    if key and isinstance(container, dict):
        found = next((one for one in container if type(one) is not str), None)
        return Unreadable(path, f"found the key {show(found)}, allowed: keys that are texts (in quotes)")
    if steps and steps.endswith("[...]") and isinstance(container, dict):
        return _bad_entry(container, path)
    expected = _EXPECTED.match(message)
    allowed = _ALLOWED.get(expected[1].removesuffix(" | null") if expected else "", message)
    return refused(path, container, _with_quotes(allowed, container))


def _path(steps: str) -> Path:
    """Without the last step where that is the unnamed value of a map."""
    return tuple(name or int(index) for name, index in _STEP.findall(steps) if name or index)


def _at(document: Any, path: Path) -> Any:
    for step in path:
        try:
            document = document[step]
        except (LookupError, TypeError):
            return None
    return document


def _bad_entry(entries: dict[str, Any], path: Path) -> Unreadable:
    """The decoder does not say which entry of a map it refused: the first one that is of no allowed type."""
    texts = path[-1] in _TEXT_MAPS
    for key, value in entries.items():
        if not isinstance(value, str if texts else (str, int, float)) or isinstance(value, bool):
            return refused((*path, key), value, _with_quotes(_TEXT, value) if texts else _QUANTITY)
    return refused(path, entries, "other values")


def _with_quotes(allowed: str, found: Any) -> str:
    return f"{allowed} (in quotes)" if allowed == _TEXT and isinstance(found, (bool, int, float)) else allowed


def _endless(document: dict[str, Any]) -> Path:
    """The first gang that is too deep for the decoder, or the gangs as a whole if none can be named."""
    gangs = document.get("gangs")
    for index, gang in enumerate(gangs if isinstance(gangs, list) else ()):
        try:
            msgspec.convert(gang, WireGang)
        except RecursionError:
            return ("gangs", index)
        except msgspec.ValidationError:
            continue
    return ("gangs",)
