"""Converts a DynamoGraphDeployment to the PodCliqueSet that its controller would create, or to its refusal."""

from __future__ import annotations

from spinney.api.changes import Create, Json, SetStatus
from spinney.api.dynamo_conversion import BETA, ConversionError, convert
from spinney.api.labels import DYNAMO_KAI_QUEUE
from spinney.core.expansion.dynamo import names
from spinney.core.expansion.dynamo.deployment import expand
from spinney.core.expansion.dynamo.framework import Observed
from spinney.core.expansion.dynamo.roles import replicas_of
from spinney.core.expansion.dynamo.settings import DynamoSettings
from spinney.core.expansion.resource_kinds import PODCLIQUESETS
from spinney.whatif.inputs.manifests import ManifestError


def podcliqueset_of(graph: Json, settings: DynamoSettings, has_queue: bool, now_s: float) -> Json | str:
    """The PodCliqueSet, or a text that says why there is none."""
    try:
        newest = convert(graph, BETA)
    except ConversionError as error:
        raise ManifestError(str(error)) from error
    newest["metadata"].setdefault("creationTimestamp", None)
    expansion = expand(newest, Observed(settings, now_s, queue_exists=has_queue))
    for change in expansion.changes:
        if isinstance(change, Create) and change.target.resource == PODCLIQUESETS:
            return change.body
    told = [change.status for change in expansion.changes if isinstance(change, SetStatus)]
    said = [one["message"] for status in told for one in status.get("conditions", ()) if one["status"] == "False"]
    return said[0] if said else "no PodCliqueSet follows from it"


def replicas_asked(graph: Json) -> dict[str, int]:
    """Replicas of its cliques and groups, by name: a deployment scales them to the requested number, also to zero."""
    newest = convert(graph, BETA)
    components = newest["spec"].get("components") or []
    name = names.podcliqueset(newest["metadata"]["name"], components)
    return {names.child(name, one["name"]): replicas_of(one) for one in components}


def queue_named(graph: Json) -> str:
    """The queue that a deployment names; empty: the default queue."""
    annotations = graph["metadata"].get("annotations") or {}
    return str(annotations.get(DYNAMO_KAI_QUEUE, "")).strip()
