"""Where the things the simulation deals with are in the API."""

from __future__ import annotations

from spinney.drive.client.paths import ResourcePath

PODS = ResourcePath("", "v1", "pods")
NODES = ResourcePath("", "v1", "nodes", namespaced=False)
NAMESPACES = ResourcePath("", "v1", "namespaces", namespaced=False)
SERVICE_ACCOUNTS = ResourcePath("", "v1", "serviceaccounts")
CLAIMS = ResourcePath("", "v1", "persistentvolumeclaims")
VOLUMES = ResourcePath("", "v1", "persistentvolumes", namespaced=False)
STORAGE_CLASSES = ResourcePath("storage.k8s.io", "v1", "storageclasses", namespaced=False)
LEASES = ResourcePath("coordination.k8s.io", "v1", "leases")
JOBS = ResourcePath("batch", "v1", "jobs")
REPLICASETS = ResourcePath("apps", "v1", "replicasets")
DEPLOYMENTS = ResourcePath("apps", "v1", "deployments")
STATEFULSETS = ResourcePath("apps", "v1", "statefulsets")
BUDGETS = ResourcePath("policy", "v1", "poddisruptionbudgets")
