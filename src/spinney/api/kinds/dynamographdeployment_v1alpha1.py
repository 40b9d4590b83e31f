"""DynamoGraphDeployment v1alpha1, the older version: services by name, pods described by flat fields."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from spinney.api.kinds.dynamo_common import (
    BACKENDS,
    COMPONENT_LIMIT,
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


class ResourceItem(Slim, frozen=True):
    cpu: Annotated[Word, doc("Cores, as a quantity.")] = ""
    memory: Annotated[Word, doc("Memory, as a quantity.")] = ""
    gpu: Annotated[Word, doc("How many GPUs.")] = ""
    gpu_type: Annotated[str, text("The resource that stands for a GPU; nvidia.com/gpu if not set.", most=317)] = ""
    custom: Annotated[
        dict[str, Annotated[str, text("A quantity.", most=63)]], mapped("Other resources, by name.", most=64)
    ] = field(default_factory=dict)


class ServiceResources(Slim, frozen=True):
    requests: Annotated[ResourceItem | None, doc("What is needed.")] = None
    limits: Annotated[ResourceItem | None, doc("What may be used at most.")] = None
    claims: Annotated[OpaqueList, doc("Resource claims of the pod that the container uses.")] = ()


class VolumeMount(Slim, frozen=True):
    name: Annotated[str, text("The volume claim.", most=253)]
    mount_point: Annotated[Path, doc("Where it is mounted.")] = ""
    use_as_compilation_cache: Annotated[bool, doc("Whether compiled artifacts are kept there.", default=False)] = False


class SharedMemory(Slim, frozen=True):
    RULES: ClassVar = (
        Rule(
            "!(has(self.disabled) && self.disabled && has(self.size))",
            "sharedMemory.size must not be set when sharedMemory.disabled is true",
        ),
    )

    disabled: Annotated[bool, doc("Switches /dev/shm off.")] = False
    size: Annotated[Quantity | None, doc("The size of /dev/shm.")] = None


class ExtraPodMetadata(Slim, frozen=True):
    annotations: Annotated[AnnotationMap, doc("Annotations of the pods.")] = field(default_factory=dict)
    labels: Annotated[LabelMap, doc("Labels of the pods.")] = field(default_factory=dict)


class ScalingAdapterSwitch(Slim, frozen=True):
    enabled: Annotated[bool, doc("Whether an adapter owns the number of replicas.", default=False)] = False


class Service(Slim, frozen=True):
    """One part of the graph, in one or more replicas."""

    annotations: Annotated[AnnotationMap, doc("Annotations of what is generated.")] = field(default_factory=dict)
    labels: Annotated[LabelMap, doc("Labels of what is generated.")] = field(default_factory=dict)
    service_name: Annotated[Name, doc("The name of the service; the key of the map counts.")] = ""
    component_type: Annotated[Word, doc("What the service does.")] = ""
    sub_component_type: Annotated[Word, doc("What kind of worker it is: prefill or decode.")] = ""
    dynamo_namespace: Annotated[Name | None, doc("Ignored; the runtime namespace is made from the name.")] = None
    global_dynamo_namespace: Annotated[bool, doc("Places the service in the shared runtime namespace.")] = False
    resources: Annotated[ServiceResources | None, doc("What the main container needs.")] = None
    autoscaling: Annotated[Opaque | None, doc("Ignored; use a scaling adapter.")] = None
    envs: Annotated[OpaqueList, doc("Environment of the main container.")] = ()
    env_from_secret: Annotated[Name | None, doc("A secret whose entries become environment.")] = None
    volume_mounts: Annotated[tuple[VolumeMount, ...], listed("Volume claims to mount.", most=64)] = ()
    ingress: Annotated[Opaque | None, doc("Exposes the service outside the cluster.")] = None
    model_ref: Annotated[ModelReference | None, doc("The model that is served.")] = None
    shared_memory: Annotated[SharedMemory | None, doc("Memory that the processes of a pod share.")] = None
    extra_pod_metadata: Annotated[ExtraPodMetadata | None, doc("Labels and annotations of the pods.")] = None
    extra_pod_spec: Annotated[
        Opaque | None,
        doc("A pod specification laid over the generated one, with mainContainer for the main container."),
    ] = None
    liveness_probe: Annotated[Opaque | None, doc("When the main container is restarted.")] = None
    readiness_probe: Annotated[Opaque | None, doc("When the main container gets traffic.")] = None
    replicas: Annotated[int | None, number("How many replicas are wanted; 1 if not set.", least=0)] = None
    min_available: Annotated[int | None, number("How many replicas are scheduled together; 1 if not set.", least=1)] = (
        None
    )
    multinode: Annotated[Multinode | None, doc("Spans each replica over several nodes.")] = None
    scaling_adapter: Annotated[ScalingAdapterSwitch | None, doc("Lets an adapter own the number of replicas.")] = None
    epp_config: Annotated[Opaque | None, doc("Configuration of an endpoint picker.")] = None
    frontend_sidecar: Annotated[Opaque | None, doc("A frontend beside the main container.")] = None
    gpu_memory_service: Annotated[Opaque | None, doc("Shares GPU memory between pods.")] = None
    failover: Annotated[Opaque | None, doc("Keeps a standby engine.")] = None
    checkpoint: Annotated[Opaque | None, doc("Starts pods from a checkpoint.")] = None
    topology_constraint: Annotated[ComponentTopologyConstraint | None, doc("Packs each replica of the service.")] = None


class VolumeClaim(Slim, frozen=True, kw_only=True):
    RULES: ClassVar = (
        Rule(
            "!has(self.create) || self.create == false || "
            "(has(self.size) && has(self.storageClass) && has(self.volumeAccessMode))",
            "When create is true, size, storageClass, and volumeAccessMode are required",
        ),
    )

    create: Annotated[bool | None, doc("Whether the claim is made.")] = None
    name: Annotated[str, text("The name of the claim.", most=253)]
    storage_class: Annotated[Name, doc("Its storage class.")] = ""
    size: Annotated[Quantity | None, doc("Its size.")] = None
    volume_access_mode: Annotated[Word, doc("Its access mode.")] = ""


class DeploymentTopologyConstraint(Slim, frozen=True):
    topology_profile: Annotated[
        str, text("The cluster topology that domains refer to; the default one if not set.", least=1, most=253)
    ] = ""
    pack_domain: Annotated[Domain, doc("The whole deployment is placed inside one domain of this level.")] = ""


class DynamoGraphDeploymentSpec(Slim, frozen=True):
    pvcs: Annotated[tuple[VolumeClaim, ...], listed("Volume claims that services mount.", most=100)] = ()
    services: Annotated[
        dict[str, Annotated[Service, doc("One part of the graph.")]],
        mapped("The parts of the graph, by name.", most=COMPONENT_LIMIT),
    ] = field(default_factory=dict)
    annotations: Annotated[AnnotationMap, doc("Annotations of everything that is generated.")] = field(
        default_factory=dict
    )
    labels: Annotated[LabelMap, doc("Labels of everything that is generated.")] = field(default_factory=dict)
    priority_class_name: Annotated[Name, doc("The PriorityClass of the gangs.")] = ""
    envs: Annotated[OpaqueList, doc("Environment of every service; a service's own entries win.")] = ()
    backend_framework: Annotated[str, one_of("The inference framework; found out if not set.", *BACKENDS, "")] = ""
    restart: Annotated[Restart | None, doc("Asks for a restart.")] = None
    topology_constraint: Annotated[DeploymentTopologyConstraint | None, doc("Packs the whole deployment.")] = None


class ServiceReplicaStatus(ReplicaStatus, frozen=True):
    component_name: Annotated[Name, doc("The first of componentNames.")] = ""


class RollingUpdateStatus(RollingUpdateTimes, frozen=True):
    updated_services: Annotated[NameList, doc("Services that are done.")] = ()


class DynamoGraphDeploymentStatus(Slim, frozen=True):
    state: State = "initializing"
    observed_generation: ObservedGeneration = 0
    conditions: ConditionList = ()
    services: Annotated[
        dict[str, Annotated[ServiceReplicaStatus, doc("The numbers of one service.")]],
        mapped("The numbers of each service.", most=COMPONENT_LIMIT),
    ] = field(default_factory=dict)
    restart: Annotated[RestartStatus | None, doc("How far a restart is.")] = None
    checkpoints: Annotated[
        dict[str, Annotated[CheckpointStatus, doc("The checkpoint of one service.")]],
        mapped("The checkpoint of each service.", most=COMPONENT_LIMIT),
    ] = field(default_factory=dict)
    rolling_update: Annotated[RollingUpdateStatus | None, doc("How far an update is.")] = None
    placement: Annotated[Placement | None, doc("How well the deployment is placed.")] = None


class DynamoGraphDeploymentV1Alpha1(Kind, frozen=True):
    """An inference graph: services that work together, placed by topology if asked for."""

    GROUP: ClassVar = "nvidia.com"
    VERSION: ClassVar = "v1alpha1"
    KIND: ClassVar = "DynamoGraphDeployment"
    PLURAL: ClassVar = "dynamographdeployments"

    spec: Annotated[DynamoGraphDeploymentSpec, doc("What is wanted.")] = DynamoGraphDeploymentSpec()
    status: Annotated[DynamoGraphDeploymentStatus, doc("What is.")] = DynamoGraphDeploymentStatus()
