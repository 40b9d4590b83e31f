"""DynamoGraphDeployment v1beta1, the version that is stored: an inference graph of named components."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from spinney.api.kinds.dynamo_common import (
    BACKENDS,
    COMPONENT_LIMIT,
    COMPONENT_NAME_PATTERN,
    CheckpointStatus,
    ComponentTopologyConstraint,
    ConditionList,
    Domain,
    ModelReference,
    Multinode,
    ObservedGeneration,
    Placement,
    ReplicaStatus,
    Restart,
    RestartStatus,
    RollingUpdateTimes,
    State,
)
from spinney.api.meta import (
    AnnotationMap,
    Kind,
    LabelMap,
    Name,
    NameList,
    Opaque,
    OpaqueList,
    Path,
    Quantity,
    Rule,
    Slim,
    Word,
    doc,
    listed,
    mapped,
    number,
    one_of,
    text,
)

COMPONENT_TYPES = ("frontend", "worker", "prefill", "decode", "planner", "epp")


class ProviderOverride(Slim, frozen=True, kw_only=True):
    """A fragment in the words of the workload provider, where the typed API has none."""

    api_version: Annotated[Word, doc("The API of the fragment.")]
    target: Annotated[Word, doc("The kind of object the fragment is laid over; clear from its place if not set.")] = ""
    value: Annotated[Opaque, doc("The fragment; it may set the topology constraint only.")]


class MultinodeRole(Slim, frozen=True):
    provider_override: Annotated[ProviderOverride | None, doc("A fragment for the pods of this role.")] = None


class MultinodeRoles(Multinode, frozen=True):
    leader: Annotated[MultinodeRole | None, doc("The first node of each replica.")] = None
    worker: Annotated[MultinodeRole | None, doc("The other nodes of each replica.")] = None


class ScalingAdapter(Slim, frozen=True):
    """Present: an adapter object owns the number of replicas."""


class CompilationCache(Slim, frozen=True):
    pvc_name: Annotated[str, text("The volume claim that holds the cache.", least=1, most=253)]
    mount_path: Annotated[Path, doc("Where it is mounted; the framework's own place if not set.")] = ""


class GroveOptions(Slim, frozen=True):
    force_scaling_group: Annotated[bool, doc("Renders a single-node component as a scaling group.")] = False


class ComponentExperiments(Slim, frozen=True):
    gpu_memory_service: Annotated[Opaque | None, doc("Shares GPU memory between pods.")] = None
    failover: Annotated[Opaque | None, doc("Keeps a standby engine.")] = None
    checkpoint: Annotated[Opaque | None, doc("Starts pods from a checkpoint.")] = None
    grove: Annotated[GroveOptions | None, doc("Options of the generated workload.")] = None


class Component(Slim, frozen=True):
    """One part of the graph, in one or more replicas."""

    RULES: ClassVar = (
        Rule(
            "!has(self.eppConfig) || (has(self.type) && self.type == 'epp')",
            "eppConfig may only be set when type is epp",
        ),
        Rule(
            "!has(self.minAvailable) || (has(self.replicas) && self.replicas == 0) || "
            "self.minAvailable <= (has(self.replicas) ? self.replicas : 1)",
            "minAvailable must be less than or equal to replicas unless replicas is 0",
        ),
        Rule(
            "!has(oldSelf.minAvailable) || (has(self.minAvailable) && self.minAvailable == oldSelf.minAvailable)",
            "minAvailable is immutable after creation",
        ),
    )

    name: Annotated[str, text("The name of the component.", least=1, most=63, pattern=COMPONENT_NAME_PATTERN)]
    type: Annotated[str, one_of("What the component does.", *COMPONENT_TYPES, "")] = ""
    provider_override: Annotated[ProviderOverride | None, doc("A fragment for the generated clique or group.")] = None
    runtime_version_override: Annotated[str, text("The runtime version where the image tag does not say.", most=63)] = (
        ""
    )
    global_dynamo_namespace: Annotated[bool, doc("Places the component in the shared runtime namespace.")] = False
    pod_template: Annotated[Opaque | None, doc("The pods; the container named main is the component's own.")] = None
    replicas: Annotated[int | None, number("How many replicas are wanted; 1 if not set.", least=0)] = None
    min_available: Annotated[int | None, number("How many replicas are scheduled together; 1 if not set.", least=1)] = (
        None
    )
    multinode: Annotated[MultinodeRoles | None, doc("Spans each replica over several nodes.")] = None
    shared_memory_size: Annotated[Quantity | None, doc("The size of /dev/shm; 0 switches it off.")] = None
    model_ref: Annotated[ModelReference | None, doc("The model that is served.")] = None
    scaling_adapter: Annotated[ScalingAdapter | None, doc("Lets an adapter own the number of replicas.")] = None
    epp_config: Annotated[Opaque | None, doc("Configuration of an endpoint picker.")] = None
    frontend_sidecar: Annotated[Word | None, doc("The container that serves as the frontend.")] = None
    compilation_cache: Annotated[CompilationCache | None, doc("Keeps compiled artifacts on a volume.")] = None
    topology_constraint: Annotated[ComponentTopologyConstraint | None, doc("Packs each replica of the component.")] = (
        None
    )
    experimental: Annotated[ComponentExperiments | None, doc("What may still change.")] = None


class GraphTopologyConstraint(Slim, frozen=True):
    cluster_topology_name: Annotated[
        str, text("The cluster topology that domains refer to; the default one if not set.", least=1, most=253)
    ] = ""
    pack_domain: Annotated[Domain, doc("The whole deployment is placed inside one domain of this level.")] = ""


class GraphExperiments(Slim, frozen=True):
    kv_transfer_policy: Annotated[Opaque | None, doc("Keeps cache transfers inside a domain.")] = None
    component_groups: Annotated[OpaqueList, doc("Components that are scaled as one.")] = ()


class DynamoGraphDeploymentSpec(Slim, frozen=True):
    RULES: ClassVar = (
        Rule(
            "oldSelf.hasValue() || !has(self.restart)",
            "spec.restart must be unset on create; set spec.restart.id after creation to request a restart",
            optional_old_self=True,
        ),
    )

    provider_override: Annotated[ProviderOverride | None, doc("A fragment for the generated set.")] = None
    annotations: Annotated[AnnotationMap, doc("Annotations of everything that is generated.")] = field(
        default_factory=dict
    )
    labels: Annotated[LabelMap, doc("Labels of everything that is generated.")] = field(default_factory=dict)
    priority_class_name: Annotated[Name, doc("The PriorityClass of the gangs.")] = ""
    components: Annotated[
        tuple[Component, ...],
        listed(
            "The parts of the graph.",
            most=COMPONENT_LIMIT,
            keys=("name",),
            rules=(
                Rule(
                    "self.filter(c, has(c.type) && c.type == 'epp').size() <= 1",
                    "at most one component may have type epp",
                ),
                Rule(
                    "self.all(x, self.filter(y, y.name.lowerAscii() == x.name.lowerAscii()).size() == 1)",
                    "component names must be unique case-insensitively",
                ),
            ),
        ),
    ] = ()
    env: Annotated[OpaqueList, doc("Environment of every component; a component's own entries win.")] = ()
    backend_framework: Annotated[str, one_of("The inference framework; found out if not set.", *BACKENDS, "")] = ""
    restart: Annotated[Restart | None, doc("Asks for a restart.")] = None
    topology_constraint: Annotated[GraphTopologyConstraint | None, doc("Packs the whole deployment.")] = None
    experimental: Annotated[GraphExperiments | None, doc("What may still change.")] = None


class RollingUpdateStatus(RollingUpdateTimes, frozen=True):
    updated_components: Annotated[NameList, doc("Components that are done.")] = ()


class DynamoGraphDeploymentStatus(Slim, frozen=True):
    state: State = "initializing"
    observed_generation: ObservedGeneration = 0
    conditions: ConditionList = ()
    components: Annotated[
        dict[str, Annotated[ReplicaStatus, doc("The numbers of one component.")]],
        mapped("The numbers of each component.", most=COMPONENT_LIMIT),
    ] = field(default_factory=dict)
    restart: Annotated[RestartStatus | None, doc("How far a restart is.")] = None
    checkpoints: Annotated[
        dict[str, Annotated[CheckpointStatus, doc("The checkpoint of one component.")]],
        mapped("The checkpoint of each component.", most=COMPONENT_LIMIT),
    ] = field(default_factory=dict)
    rolling_update: Annotated[RollingUpdateStatus | None, doc("How far an update is.")] = None
    placement: Annotated[Placement | None, doc("How well the deployment is placed.")] = None


class DynamoGraphDeployment(Kind, frozen=True):
    """An inference graph: components that work together, placed by topology if asked for."""

    GROUP: ClassVar = "nvidia.com"
    VERSION: ClassVar = "v1beta1"
    KIND: ClassVar = "DynamoGraphDeployment"
    PLURAL: ClassVar = "dynamographdeployments"

    spec: Annotated[DynamoGraphDeploymentSpec, doc("What is wanted.")] = DynamoGraphDeploymentSpec()
    status: Annotated[DynamoGraphDeploymentStatus, doc("What is.")] = DynamoGraphDeploymentStatus()
