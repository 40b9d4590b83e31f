"""One Deployment for each role, with as little power as it can work with.

Nothing here runs as root, writes to its image, or gains privileges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import yaml

from spinney.api.labels import CONFIGURATION_HASH, ENV_INIT_CONTAINER_IMAGE
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.cli.dashboard_options import DEFAULT_PORT
from spinney.cli.manifests_webhooks import PART_OF, SERVICE, selector
from spinney.cli.roles import MODULES

Object = dict[str, Any]

CONFIG_MAP, CONFIG_FILE, CONFIG_DIR = "spinney", "operator.yaml", "/etc/spinney"
_USER = 65532
_STOP_S = 30
_LEAVE_S = 5
_FEW_RESOURCES: Object = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
_RESOURCES: Mapping[str, Object] = {
    "operator": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "4Gi"}},
    "scheduler": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "8Gi"}},
}
_REPLICAS: Mapping[str, int] = {"dashboard": 1}
_IN_A_POD: Object = {
    "leaderElection": {"enabled": True},
    "server": {part: {"bindAddress": "0.0.0.0"} for part in ("healthProbes", "metrics", "webhooks")},
}
"""What a file has to say for a role in a pod, unless it says something else: probes come from outside."""


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
    text = yaml.safe_dump(document, sort_keys=False)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace, "labels": dict(PART_OF)},
        "data": {CONFIG_FILE: text},
    }
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return [config, *(_deployment(role, namespace, image, digest, configuration) for role in sorted(MODULES))]


def _deployment(role: str, namespace: str, image: str, digest: str, configuration: OperatorConfiguration) -> Object:
    template = {
        "metadata": {"labels": selector(role), "annotations": {CONFIGURATION_HASH: digest}},
        "spec": {
            "serviceAccountName": role,
            "terminationGracePeriodSeconds": _STOP_S,
            "priorityClassName": "system-cluster-critical",
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
    arguments = ["run", role, "--config", f"{CONFIG_DIR}/{CONFIG_FILE}"]
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
        "livenessProbe": _probe("/healthz") | {"initialDelaySeconds": 10},
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


def _certificates(role: str, configuration: OperatorConfiguration, said: Object) -> list[Object]:
    """What is said of the volume with certificates that somebody else makes, where there is one."""
    is_given = role == "webhook" and configuration.server.webhooks.cert_provision_mode == "manual"
    return [{"name": "certificates", **said}] if is_given else []


def _probe(path: str) -> Object:
    return {"httpGet": {"path": path, "port": "probes"}, "periodSeconds": 10, "timeoutSeconds": 5}
