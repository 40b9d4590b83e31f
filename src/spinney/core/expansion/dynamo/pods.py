"""The pod spec of a role: a base, the user's template over it, the main container first (3.7)."""

from __future__ import annotations

from spinney.api.changes import Json
from spinney.api.labels import SCHEDULER_KAI
from spinney.core.expansion.dynamo import containers, generated_labels, multinode
from spinney.core.expansion.dynamo.roles import Role
from spinney.core.expansion.dynamo.settings import DynamoSettings

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
