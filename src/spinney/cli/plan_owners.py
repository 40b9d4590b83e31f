"""Owners of pods that others define, as an API server would take them: their names, and the rules for built-in kinds.

Only judges: what pods they become is not said here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spinney.api.changes import Json
from spinney.serve.apiserver.builtins import apps, cronjobs, jobs, statefulsets
from spinney.serve.apiserver.builtins.decode import conform
from spinney.serve.apiserver.builtins.metadata import SUBDOMAIN, validate_metadata
from spinney.serve.apiserver.builtins.rules import Rules
from spinney.serve.apiserver.resource import Context

_RULES: dict[tuple[str, str], Rules] = {
    ("batch/v1", "Job"): jobs.JOBS,
    ("batch/v1", "CronJob"): cronjobs.CRON_JOBS,
    ("apps/v1", "Deployment"): apps.DEPLOYMENTS,
    ("apps/v1", "ReplicaSet"): apps.REPLICA_SETS,
    ("apps/v1", "StatefulSet"): statefulsets.STATEFUL_SETS,
}
_TEXTS = ("labels", "annotations")


def refusals(body: Json) -> tuple[str, ...]:
    """Why a server would not have it. Nothing of what is of the wrong type: whoever makes the pods names it better."""
    rules = _RULES.get((str(body["apiVersion"]), str(body["kind"])))
    obj: Json = msgspec.json.decode(msgspec.json.encode(body))
    if rules is None:
        return tuple(map(str, validate_metadata(_named(obj), True, SUBDOMAIN)))
    if conform(obj, rules.component).errors:
        return ()
    rules.default(obj)
    rules.prepare_create(obj, Context(0.0))
    return tuple(dict.fromkeys(map(str, rules.validate_create(obj))))


def _named(obj: Json) -> Json:
    """Its name, namespace, labels and annotations, as far as they are texts."""
    metadata: dict[str, Any] = obj["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace")}
    for part in _TEXTS:
        found = metadata.get(part)
        if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
            kept[part] = found
    return {"metadata": kept}
