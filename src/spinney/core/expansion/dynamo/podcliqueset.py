"""A deployment as a PodCliqueSet: the same deployment always gives the same set, and scaling changes no pod."""

from __future__ import annotations

from collections.abc import Mapping

from spinney.api.changes import Json
from spinney.api.labels import (
    DYNAMO_COMPONENT,
    DYNAMO_KAI_QUEUE,
    DYNAMO_RESTART_AT,
    DYNAMO_UPDATE_STRATEGY,
    DYNAMO_VOLCANO_QUEUE,
    SCHEDULER_KAI,
)
from spinney.core.expansion.dynamo import containers, generated_labels, multinode, topology
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.multinode import BadDeployment, starts_after
from spinney.core.expansion.dynamo.roles import Role, is_group, min_available_of, replicas_of, roles_of

# The pod spec of a role: a base, the user's template over it, the main container first (3.7).

_GRACE_S, _PICKER_GRACE_S = 60, 130
_VOLCANO = "volcano"
ACCOUNTS = {"planner": "planner-serviceaccount", "epp": "epp-serviceaccount"}


def pod_spec(deployment: Json, component: Json, role: Role, settings: DynamoSettings) -> Json:
    """The pod spec of a clique."""
    template = ((component.get("podTemplate") or {}).get("spec")) or {}
    own = {key: value for key, value in template.items() if key not in ("containers", "volumes")}
    pod = containers.merged(_base(deployment, component, settings), own)
    pod["containers"] = [
        containers.main_container(deployment, component, settings),
        *containers.other_containers(deployment, component, settings),
    ]
    volumes = containers.volumes_of(component, list(template.get("volumes") or ()))
    if volumes:
        pod["volumes"] = [dict(one) for one in volumes]
    if chosen := _scheduler(settings):
        pod.setdefault("schedulerName", chosen)
    multinode.wire(deployment, component, role, pod, settings)
    return pod


def _scheduler(settings: DynamoSettings) -> str:
    """The scheduler of pods for which the user named none; empty leaves it to the set."""
    return SCHEDULER_KAI if settings.kai else _VOLCANO if settings.volcano else ""


def takes_queue(component: Json, settings: DynamoSettings) -> bool:
    """Whether its pods are for the scheduler with queues: the user may have chosen another one."""
    template = ((component.get("podTemplate") or {}).get("spec")) or {}
    return settings.kai and (template.get("schedulerName") or SCHEDULER_KAI) == SCHEDULER_KAI


def _base(deployment: Json, component: Json, settings: DynamoSettings) -> Json:
    kind = component.get("type", "")
    base: Json = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": _PICKER_GRACE_S if kind == "epp" else _GRACE_S,
    }
    template = ((component.get("podTemplate") or {}).get("spec")) or {}
    if template.get("securityContext") is None:
        base["securityContext"] = {"fsGroup": 1000}
    if kind in ACCOUNTS:
        base["serviceAccountName"] = ACCOUNTS[kind]
    elif generated_labels.discovery_of(deployment, settings) == "kubernetes":
        base["serviceAccountName"] = service_account(deployment["metadata"]["name"])
    return base


def service_account(deployment: str) -> str:
    """The account with which components find each other."""
    return f"{deployment}-k8s-service-discovery"


VOLCANO_QUEUE = "scheduling.grove.io/volcano-queue"
UPDATE_STRATEGIES = ("RollingRecreate", "OnDelete")


def queue_of(deployment: Json, settings: DynamoSettings) -> str:
    """The queue that is named, else the default one."""
    return generated_labels.annotations_of(deployment).get(DYNAMO_KAI_QUEUE, "").strip() or settings.default_queue


def podcliqueset_of(
    deployment: Json,
    settings: DynamoSettings,
    live: Mapping[str, int] | None = None,
    restarts: Mapping[str, str] | None = None,
) -> Json:
    """The whole object. `live`: replicas that cliques and groups of a set that exists have, for these are scaled there.

    Cliques and groups that exist keep their order as well: the keys of `live` say it. `restarts`: marks by component.
    """
    metadata, spec = deployment["metadata"], deployment["spec"]
    components = spec.get("components", [])
    kept = live or {}
    template: Json = {
        "cliqueStartupType": "CliqueStartupTypeAnyOrder",
        "headlessServiceConfig": {"publishNotReadyAddresses": True},
        "terminationDelay": settings.termination_delay,
    }
    if spec.get("priorityClassName"):
        template["priorityClassName"] = spec["priorityClassName"]
    if name := topology.name_of(deployment):
        template["clusterTopologyName"] = name
    if constraint := topology.constraint_of(spec):
        template["topologyConstraint"] = constraint
    cliques = [_clique(deployment, one, role, settings, kept) for one in components for role in roles_of(one)]
    _mark(cliques, restarts or {})
    groups = [_group(one, kept) for one in components if is_group(one)]
    template["cliques"] = _in_order(cliques, kept)
    if any(clique["spec"].get("startsAfter") for clique in cliques):
        template["cliqueStartupType"] = "CliqueStartupTypeExplicit"
    if groups:
        template["podCliqueScalingGroups"] = _in_order(groups, kept)
    topology.lay_over(template, deployment)
    return {
        "apiVersion": topology.GROVE_API,
        "kind": "PodCliqueSet",
        "metadata": {
            "name": generated_labels.podcliqueset(metadata["name"], components),
            "namespace": metadata["namespace"],
            "labels": generated_labels.set_labels(deployment),
            "annotations": {**(spec.get("annotations") or {}), **_volcano_queue(deployment, settings)},
        },
        "spec": {"replicas": 1, **_strategy(deployment), "template": template},
    }


def _mark(cliques: list[Json], restarts: Mapping[str, str]) -> None:
    for clique in cliques:
        if mark := restarts.get(clique["labels"][DYNAMO_COMPONENT]):
            clique["annotations"][DYNAMO_RESTART_AT] = mark


def _volcano_queue(deployment: Json, settings: DynamoSettings) -> dict[str, str]:
    queue = generated_labels.annotations_of(deployment).get(DYNAMO_VOLCANO_QUEUE, "").strip()
    return {VOLCANO_QUEUE: queue} if settings.volcano and queue else {}


def _strategy(deployment: Json) -> Json:
    asked = generated_labels.annotations_of(deployment).get(DYNAMO_UPDATE_STRATEGY)
    if asked is None:
        return {}
    if asked not in UPDATE_STRATEGIES:
        allowed = ", ".join(UPDATE_STRATEGIES)
        raise BadDeployment(f"annotation {DYNAMO_UPDATE_STRATEGY}: found {asked!r}, expected one of {allowed}")
    return {"updateStrategy": {"type": asked}}


def _clique(deployment: Json, component: Json, role: Role, settings: DynamoSettings, live: Mapping[str, int]) -> Json:
    queue = queue_of(deployment, settings) if takes_queue(component, settings) else ""
    grouped = is_group(component)
    spec: Json = {
        "roleName": role.clique,
        "replicas": role.replicas if grouped else live.get(role.clique, role.replicas),
        "minAvailable": role.min_available,
        "podSpec": pod_spec(deployment, component, role, settings),
    }
    if after := starts_after(deployment, component, role):
        spec["startsAfter"] = after
    clique: Json = {
        "name": role.clique,
        "labels": generated_labels.clique_labels(deployment, component, settings, queue),
        "annotations": generated_labels.clique_annotations(deployment, component),
        "spec": spec,
    }
    constraint = None if grouped else topology.constraint_of(component)
    return clique if constraint is None else {**clique, "topologyConstraint": constraint}


def _group(component: Json, live: Mapping[str, int]) -> Json:
    name = component["name"].lower()
    group: Json = {
        "name": name,
        "cliqueNames": [role.clique for role in roles_of(component)],
        "replicas": live.get(name, replicas_of(component)),
        "minAvailable": min_available_of(component),
    }
    constraint = topology.constraint_of(component)
    return group if constraint is None else {**group, "topologyConstraint": constraint}


def _in_order(entries: list[Json], live: Mapping[str, int]) -> list[Json]:
    """Entries that exist keep their places, new ones come after them."""
    places = {name: index for index, name in enumerate(live)}
    return sorted(entries, key=lambda entry: places.get(entry["name"], len(places)))
