"""Small valid objects to start from; a test changes what it is about."""

from __future__ import annotations

import copy
from typing import Any

Json = dict[str, Any]


def merged(base: Json, change: Json) -> Json:
    """A copy of `base` with `change` laid over it, key by key; None removes a key."""
    out = copy.deepcopy(base)
    for key, value in change.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        else:
            out[key] = copy.deepcopy(value)
    return out


def named(name: str, **metadata: Any) -> Json:
    return {"name": name, **metadata}


def config(name: str, data: Json | None = None, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": named(name, **metadata),
        "data": {"k": "v"} if data is None else data,
    }


def secret(name: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": named(name), "data": {"k": "dg=="}, **fields}


CONTAINER: Json = {"name": "main", "image": "example.com/app:1"}


def pod(name: str, spec: Json | None = None, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": named(name, **metadata),
        "spec": {"containers": [dict(CONTAINER)], **(spec or {})},
    }


def template(**spec: Any) -> Json:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [dict(CONTAINER)], **spec}}


def deployment(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named(name),
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template(), **spec},
    }


def replicaset(name: str, **spec: Any) -> Json:
    return {**deployment(name, **spec), "kind": "ReplicaSet"}


def statefulset(name: str, **spec: Any) -> Json:
    return {**deployment(name, serviceName="svc", **spec), "kind": "StatefulSet"}


def job(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": named(name),
        "spec": {
            "suspend": True,
            "template": {"spec": {"containers": [dict(CONTAINER)], "restartPolicy": "Never"}},
            **spec,
        },
    }


def service(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": named(name),
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}], **spec},
    }


def node(name: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": named(name), **fields}


def lease(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": named(name),
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, **spec},
    }


def budget(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": named(name),
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **(spec or {"minAvailable": 1})},
    }


def autoscaler(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": named(name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "minReplicas": 1,
            "maxReplicas": 3,
            **spec,
        },
    }


def claim(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": named(name),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec},
    }


def volume(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": named(name),
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
            **spec,
        },
    }


def storage_class(name: str, **fields: Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": named(name),
        "provisioner": "example.com/disk",
        **fields,
    }


def runtime_class(name: str, **fields: Any) -> Json:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "runsc",
        **fields,
    }


def priority_class(name: str, value: int = 1000, **fields: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": named(name),
        "value": value,
        **fields,
    }


def device_class(name: str, **spec: Any) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": named(name), "spec": spec}


def resource_claim(name: str, **spec: Any) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": named(name),
        "spec": {"devices": {"requests": [request]}, **spec},
    }


def resource_slice(name: str, node_name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": named(name),
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
            **spec,
        },
    }


def event(name: str, namespace: str, **fields: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": named(name),
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "p"},
        "reason": "Started",
        "message": "it started",
        "type": "Normal",
        **fields,
    }


def role(name: str, *rules: Json) -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": named(name),
        "rules": list(rules) or [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    }


def role_binding(name: str, role_name: str, user: str, kind: str = "Role") -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": named(name),
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": kind, "name": role_name, "apiGroup": "rbac.authorization.k8s.io"},
    }


def cluster_role(name: str, *rules: Json) -> Json:
    return {**role(name, *rules), "kind": "ClusterRole"}


def cluster_role_binding(name: str, role_name: str, user: str) -> Json:
    return {**role_binding(name, role_name, user, "ClusterRole"), "kind": "ClusterRoleBinding"}


def crd(
    group: str, schema: Json | None = None, *, kind: str = "Widget", scope: str = "Namespaced", **version: Any
) -> Json:
    """A CustomResourceDefinition with one version v1; `schema` holds the properties of the root."""
    plural = f"{kind.lower()}s"
    root = {"type": "object", "properties": SPEC_AND_STATUS if schema is None else schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": named(f"{plural}.{group}"),
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}, **version}
            ],
        },
    }


SPEC_AND_STATUS: Json = {
    "spec": {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "color": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    },
    "status": {"type": "object", "properties": {"phase": {"type": "string"}, "seen": {"type": "integer"}}},
}


def custom(group: str, name: str, *, kind: str = "Widget", version: str = "v1", **fields: Any) -> Json:
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": named(name), **fields}


def binding(pod_name: str, node_name: str, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": named(pod_name, **metadata),
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
    }


def eviction(pod_name: str, **options: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": named(pod_name),
        **({"deleteOptions": options} if options else {}),
    }
