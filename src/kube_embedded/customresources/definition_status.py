"""The status of a definition: which names are accepted, whether what it defines is served, and how it ends.

A definition that is deleted says that it is terminating, and waits until its objects are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.resource import Resource


def established(crd: Mapping[str, Any], served: Iterable[Resource], now: str) -> Object:
    """The status of a definition among the resources that are served (its own ones may be among them).

    A condition keeps its time of transition while its status stays.
    """
    spec, status = crd["spec"], crd.get("status") or {}
    accepted, problem = _accepted(spec, status.get("acceptedNames") or {}, served)
    before = {one["type"]: one for one in status.get("conditions") or ()}
    conditions = [_names_condition(problem, before, now), _established_condition(problem, before, now)]
    known = {one["type"] for one in conditions}
    conditions += [one for kind, one in before.items() if kind not in known]
    return {"conditions": conditions, "acceptedNames": accepted, "storedVersions": stored_versions(crd)}


def stored_versions(crd: Mapping[str, Any]) -> list[str]:
    """Every version that objects were ever stored in, the current one included."""
    found = list((crd.get("status") or {}).get("storedVersions") or ())
    current = [version["name"] for version in crd["spec"]["versions"] if version.get("storage")][:1]
    return [*found, *(name for name in current if name not in found)]


Problem = tuple[str, str]


def _accepted(
    spec: Mapping[str, Any], accepted: Mapping[str, Any], served: Iterable[Resource]
) -> tuple[Object, Problem | None]:
    """The names that are free or already ours, and the last conflict."""
    names, group = spec["names"], spec["group"]
    others = [one for one in served if one.group == group and one.plural != names["plural"]]
    words = {name for one in others for name in (one.plural, one.singular, *one.short_names)}
    kinds = {name for one in others for name in (one.kind, one.list_kind)}
    result: Object = dict(accepted)
    problem: Problem | None = None
    for key, reason, used in (
        ("plural", "PluralConflict", words),
        ("singular", "SingularConflict", words),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        if names.get(key) != accepted.get(key) and names.get(key) in used:
            problem = (reason, f'"{names[key]}" is already in use')
        elif key in names:
            result[key] = names[key]
        if key == "singular" and (taken := _taken_short_names(names, accepted, words)):
            problem = ("ShortNamesConflict", taken[0] if len(taken) == 1 else f"[{', '.join(taken)}]")
        elif key == "singular":
            _carry(names, result, "shortNames")
    _carry(names, result, "categories")
    return result, problem


def _taken_short_names(names: Mapping[str, Any], accepted: Mapping[str, Any], words: set[str]) -> list[str]:
    own = accepted.get("shortNames") or ()
    return [f'"{name}" is already in use' for name in names.get("shortNames") or () if name in words - set(own)]


def _carry(names: Mapping[str, Any], result: Object, key: str) -> None:
    result.pop(key, None)
    if names.get(key):
        result[key] = list(names[key])


def _names_condition(problem: Problem | None, before: Mapping[str, Object], now: str) -> Object:
    reason, message = problem or ("NoConflicts", "no conflicts found")
    return _condition("NamesAccepted", problem is None, reason, message, before, now)


def _established_condition(problem: Problem | None, before: Mapping[str, Object], now: str) -> Object:
    """Once established, a definition stays so, whatever happens to its names."""
    old = before.get("Established")
    if old is not None and old.get("status") == "True":
        return dict(old)
    if problem is not None:
        return _condition("Established", False, "NotAccepted", "not all names are accepted", before, now)
    words = "the initial names have been accepted"
    return _condition("Established", True, "InitialNamesAccepted", words, before, now)


def _condition(kind: str, holds: bool, reason: str, message: str, before: Mapping[str, Object], now: str) -> Object:
    status = "True" if holds else "False"
    old = before.get(kind)
    since = old["lastTransitionTime"] if old is not None and old.get("status") == status else now
    return {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def terminate(crd: Object, now: str) -> list[str]:
    """Mark a definition that is being deleted; the finalizer that it must get, if it has it not."""
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    status = crd.setdefault("status", {})
    status["conditions"] = [one for one in status.get("conditions") or () if one["type"] != "Terminating"] + [condition]
    return [] if CLEANUP in (crd["metadata"].get("finalizers") or ()) else [CLEANUP]
