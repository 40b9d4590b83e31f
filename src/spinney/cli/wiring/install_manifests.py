"""What a cluster needs so that the roles run: one Deployment for each, and the Service and configurations of the
webhook.

Pods have as little power as they can work with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import yaml

from spinney.api.labels import CONFIGURATION_HASH, ENV_INIT_CONTAINER_IMAGE
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.roles import users_in
from spinney.cli.wiring.roles.registry import DEFAULT_PORT, MAKERS
from spinney.core.admission.settings import settings_of
from spinney.serve.webhook.configurations import Address, webhook_configurations
from spinney.serve.webhook.policies import admission_policies

SERVICE = "spinney-webhook"
PART_OF = {"app.kubernetes.io/part-of": "spinney"}


def selector(role: str) -> dict[str, str]:
    """The labels of a role's pods."""
    return {"app.kubernetes.io/name": f"spinney-{role}", **PART_OF}


def address_in(namespace: str) -> Address:
    """Where API servers find the webhook that runs in a namespace."""
    return Address(service_namespace=namespace, service_name=SERVICE)


def policy_objects(namespace: str, configuration: OperatorConfiguration) -> list[dict[str, Any]]:
    """What API servers refuse by themselves, whether or not the webhook runs."""
    return admission_policies(settings_of(configuration, users_in(namespace)))


def webhook_objects(namespace: str, configuration: OperatorConfiguration) -> list[dict[str, Any]]:
    """The bundles of the configurations and the Secret are filled in by the webhook when it runs.

    Where certificates are somebody else's, so is the Secret with them.
    """
    settings = settings_of(configuration, users_in(namespace))
    webhooks = configuration.server.webhooks
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": namespace, "labels": dict(PART_OF)},
        "spec": {
            "selector": selector("webhook"),
            "ports": [{"name": "https", "port": 443, "targetPort": webhooks.port}],
        },
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": webhooks.secret_name, "namespace": namespace, "labels": dict(PART_OF)},
        "type": "Opaque",
    }
    return [
        service,
        *([secret] if webhooks.cert_provision_mode == "auto" else []),
        *webhook_configurations(address_in(namespace), [namespace], settings=settings),
    ]


Object = dict[str, Any]

CONFIG_MAP, CONFIG_FILE, CONFIG_DIR = "spinney", "operator.yaml", "/etc/spinney"
PRIORITY = "system-cluster-critical"
_USER = 65532
_STOP_S = 30
_LEAVE_S = 5
_START_S = 120
"""So long a role may take to answer probes at all, on a busy node, before it is restarted."""
_FEW_RESOURCES: Object = {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}}
_RESOURCES: Mapping[str, Object] = {
    "operator": {"requests": {"cpu": "50m", "memory": "192Mi"}, "limits": {"memory": "4Gi"}},
    "scheduler": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "8Gi"}},
}
_REPLICAS: Mapping[str, int] = {"dashboard": 1}
_IN_A_POD: Object = {
    "leaderElection": {"enabled": True},
    "server": {part: {"bindAddress": "0.0.0.0"} for part in ("healthProbes", "metrics", "webhooks")},
}
"""What a file has to say for a role in a pod, unless it says something else: probes come from outside."""


DEFAULTS: Object = {
    "topologyAwareScheduling": {
        "enabled": True,
        "levels": [{"domain": "host", "key": "kubernetes.io/hostname"}],
    },
    "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
}
"""The configuration where none is given. Hosts are the one level that every node has: a node belongs to a topology
only if it carries all of its keys.
"""


def for_pods(document: Object) -> Object:
    """A configuration file as it is mounted."""
    head = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    return head | _filled(document, _IN_A_POD)


def _filled(given: Object, otherwise: Object) -> Object:
    found = dict(given)
    for key, value in otherwise.items():
        if isinstance(value, dict) and isinstance(found.get(key, {}), dict):
            found[key] = _filled(found.get(key) or {}, value)
        else:
            found.setdefault(key, value)
    return found


def deployment_objects(
    namespace: str, image: str, document: Object, configuration: OperatorConfiguration
) -> list[Object]:
    """The configuration, and a Deployment for each role that there is; a change of the one restarts the others (C7)."""
    text = yaml.safe_dump(document)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace, "labels": dict(PART_OF)},
        "data": {CONFIG_FILE: text},
    }
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    roles = sorted(MAKERS)
    deployments = [_deployment(role, namespace, image, digest, configuration) for role in roles]
    return [config, *deployments, *(_budget(role, namespace) for role in roles)]


def role_defaults() -> dict[str, Object]:
    """What an installation may say otherwise of each role, as it is when nothing is said."""
    return {
        role: {
            "replicas": _REPLICAS.get(role, 2),
            "priorityClassName": PRIORITY,
            "resources": dict(_RESOURCES.get(role, _FEW_RESOURCES)),
        }
        for role in sorted(MAKERS)
    }


def _budget(role: str, namespace: str) -> Object:
    """A drain takes one replica at a time, and also the only one."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"spinney-{role}", "namespace": namespace, "labels": selector(role)},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(role)}},
    }


def _deployment(role: str, namespace: str, image: str, digest: str, configuration: OperatorConfiguration) -> Object:
    template = {
        "metadata": {"labels": selector(role), "annotations": {CONFIGURATION_HASH: digest}},
        "spec": {
            "serviceAccountName": role,
            "terminationGracePeriodSeconds": _STOP_S,
            "priorityClassName": PRIORITY,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [_apart(role)],
            "containers": [_container(role, namespace, image, configuration)],
            "volumes": [
                {"name": "configuration", "configMap": {"name": CONFIG_MAP}},
                {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
                *_certificates(
                    role, configuration, {"secret": {"secretName": configuration.server.webhooks.secret_name}}
                ),
            ],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"spinney-{role}", "namespace": namespace, "labels": selector(role)},
        "spec": {"replicas": _REPLICAS.get(role, 2), "selector": {"matchLabels": selector(role)}, "template": template},
    }


def _apart(role: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(role)},
    }


def _container(role: str, namespace: str, image: str, configuration: OperatorConfiguration) -> Object:
    server = configuration.server
    arguments = ["run", role, "--config", f"{CONFIG_DIR}/{CONFIG_FILE}", "--metrics-secure"]
    ports = [("probes", server.health_probes.port), ("metrics", server.metrics.port)]
    container: Object = {"name": role, "image": image}
    if role == "operator":
        container["env"] = [{"name": ENV_INIT_CONTAINER_IMAGE, "value": image}]
    if role == "webhook":
        arguments += ["--service", f"{namespace}/{SERVICE}"]
        ports.append(("https", server.webhooks.port))
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": _LEAVE_S}}}
    if role == "dashboard":
        ports.append(("pages", DEFAULT_PORT))
    return container | {
        "command": ["spinney"],
        "args": arguments,
        "ports": [{"name": name, "containerPort": port} for name, port in ports],
        "startupProbe": _probe("/healthz") | {"periodSeconds": 2, "failureThreshold": _START_S // 2},
        "livenessProbe": _probe("/healthz"),
        "readinessProbe": _probe("/readyz"),
        "resources": dict(_RESOURCES.get(role, _FEW_RESOURCES)),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "configuration", "mountPath": CONFIG_DIR, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - a memory volume of this pod alone
            *_certificates(role, configuration, {"mountPath": server.webhooks.server_cert_dir, "readOnly": True}),
        ],
    }


def _certificates(role: str, configuration: OperatorConfiguration, body: Object) -> list[Object]:
    """What is said of the volume with certificates that somebody else makes, where there is one."""
    is_given = role == "webhook" and configuration.server.webhooks.cert_provision_mode == "manual"
    return [{"name": "certificates", **body}] if is_given else []


def _probe(path: str) -> Object:
    return {"httpGet": {"path": path, "port": "probes"}, "periodSeconds": 10, "timeoutSeconds": 5}
