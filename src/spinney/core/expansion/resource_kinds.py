"""The kinds of objects that the operator makes and reads."""

from __future__ import annotations

from spinney.api.changes import Resource, resource_of
from spinney.api.kinds.clustertopology import ClusterTopology, Topology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup

PODCLIQUESETS = resource_of(PodCliqueSet)
PODCLIQUES = resource_of(PodClique)
SCALING_GROUPS = resource_of(PodCliqueScalingGroup)
PODGANGS = resource_of(PodGang)
CLUSTERTOPOLOGIES = resource_of(ClusterTopology)
PODGROUPS = resource_of(PodGroup)
KAI_TOPOLOGIES = resource_of(Topology)

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = Resource("", "v1", "events", "Event")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
COMPUTE_DOMAINS = Resource("resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain")
