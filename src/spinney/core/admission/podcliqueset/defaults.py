"""PodCliqueSet: what is filled in on entry (P8 and the defaults of its fields).

Never changes the object given: what is filled in is copied along its path, everything else is shared.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from kube_apimachinery.admission import Lookup, Object
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import TOPOLOGY_NAME
from spinney.core.admission.clustertopology import has_scheduled_pods
from spinney.core.admission.decoding import items, part, read, text
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.topology_constraints import constrained, effective_topology

TERMINATION_DELAY = "4h0m0s"
GRACE_PERIOD_S = 30


def defaulted(obj: Object, old: Object | None, settings: AdmissionSettings, lookup: Lookup) -> Object:
    """The set as it should be stored; the same object where nothing is missing."""
    filled = _with(obj, "spec", _spec(obj.get("spec"), part(old, "spec")))
    typed = read(filled, PodCliqueSet)
    if not isinstance(typed, PodCliqueSet):
        return filled
    return _labelled(filled, topology_label(typed, old, settings, lookup))


def topology_label(podcliqueset: PodCliqueSet, old: Object | None, settings: AdmissionSettings, lookup: Lookup) -> str:
    """P8: the effective topology of a constrained set, whatever a user wrote there; empty for no label."""
    if not constrained(podcliqueset):
        return ""
    kept = text(part(old, "metadata", "labels").get(TOPOLOGY_NAME))
    if not settings.topology_enabled:
        return kept
    metadata = structs.replace(podcliqueset.metadata, labels={TOPOLOGY_NAME: kept})
    stored = structs.replace(podcliqueset, metadata=metadata)
    pending, running = (effective_topology(stored, settings.default_topology, scheduled) for scheduled in (False, True))
    if pending == running:
        return pending
    return running if has_scheduled_pods(lookup, metadata.namespace, metadata.name) else pending


def _labelled(obj: Object, wanted: str) -> Object:
    labels = part(obj, "metadata", "labels")
    if text(labels.get(TOPOLOGY_NAME)) == wanted and (wanted or TOPOLOGY_NAME not in labels):
        return obj
    changed = {key: value for key, value in labels.items() if key != TOPOLOGY_NAME}
    if wanted:
        changed[TOPOLOGY_NAME] = wanted
    metadata = {key: value for key, value in obj["metadata"].items() if key != "labels"}
    return {**obj, "metadata": metadata | {"labels": changed} if changed else metadata}


def _spec(spec: Any, old: Object) -> Any:
    if not isinstance(spec, dict):
        return spec
    filled = _missing(spec, updateStrategy={"type": "RollingRecreate"})
    return _with(filled, "template", _template(filled.get("template"), part(old, "template")))


def _template(template: Any, old: Object) -> Any:
    if not isinstance(template, dict):
        return template
    filled = _missing(
        template,
        terminationDelay=TERMINATION_DELAY,
        headlessServiceConfig={"publishNotReadyAddresses": True},
        cliqueStartupType="CliqueStartupTypeAnyOrder",
    )
    was = {text(clique.get("name")): part(clique, "spec") for clique in items(old.get("cliques")) if _is(clique)}
    filled = _each(filled, "cliques", lambda clique: _clique(clique, was))
    return _each(filled, "podCliqueScalingGroups", _group)


def _clique(clique: Object, was: dict[str, Object]) -> Object:
    spec = clique.get("spec")
    if not isinstance(spec, dict):
        return clique
    if spec.get("replicas") in (None, 0) and not isinstance(spec.get("replicas"), bool):
        spec = {**spec, "replicas": 1}
    kept = was.get(text(clique.get("name")), {}).get("minAvailable")
    spec = _missing(spec, minAvailable=spec["replicas"] if kept is None else kept)
    spec = _with(spec, "autoScalingConfig", _scaling(spec.get("autoScalingConfig"), spec["replicas"]))
    spec = _with(spec, "podSpec", _pod_spec(spec.get("podSpec")))
    return _with(clique, "spec", spec)


def _pod_spec(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    return _missing(spec, restartPolicy="Always", terminationGracePeriodSeconds=GRACE_PERIOD_S)


def _group(group: Object) -> Object:
    filled = _missing(group, replicas=1, minAvailable=1)
    return _with(filled, "scaleConfig", _scaling(filled.get("scaleConfig"), filled["replicas"]))


def _scaling(scaling: Any, replicas: Any) -> Any:
    return _missing(scaling, minReplicas=replicas) if isinstance(scaling, dict) else scaling


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def _missing(given: Object, **defaults: Any) -> Object:
    """With defaults for what is not there; a null counts as not there."""
    absent = {key: value for key, value in defaults.items() if given.get(key) is None}
    return {**given, **absent} if absent else given


def _with(given: Object, key: str, value: Any) -> Object:
    return given if given.get(key) is value else {**given, key: value}


def _each(given: Object, key: str, change: Any) -> Object:
    """With every object of a list changed; the same where none was."""
    before = items(given.get(key))
    after = [change(one) if isinstance(one, dict) else one for one in before]
    if all(one is other for one, other in zip(after, before, strict=True)):
        return given
    return {**given, key: after}
