"""A pod of a PodClique, made of its opaque template and what the operator adds: names, labels, environment, gate.

Never changes the template: what is added to is copied first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spinney.api import generated_names
from spinney.api.changes import Create, Json
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import (
    APP_COMPONENT,
    ENV_HEADLESS_SERVICE,
    ENV_PCLQ_NAME,
    ENV_PCLQ_POD_INDEX,
    ENV_PCS_INDEX,
    ENV_PCS_NAME,
    ENV_PCSG_INDEX,
    ENV_PCSG_NAME,
    ENV_PCSG_TEMPLATE_NUM_PODS,
    GATE_PODGANG_PENDING,
    INIT_CONTAINER,
    NODE_KEYS,
    POD_INDEX,
    POD_INFO_PATH,
    PODCLIQUE,
    PODGANG,
    SCALING_GROUP_REPLICA_INDEX,
    TOPOLOGY_NAME,
)
from spinney.api.reserved_keys import without_reserved
from spinney.core.expansion.backends import Backend
from spinney.core.expansion.components import compute_domains, resource_claims
from spinney.core.expansion.objects import PODCLIQUES, PODS, new_object, owner_reference
from spinney.core.expansion.podclique.pod_state import Pod
from spinney.core.expansion.podcliqueset.set_layout import Member, min_available, pod_count

# Startup order: which cliques a member waits for, and the init container that does the waiting (2.6).

_IN_ORDER = "CliqueStartupTypeInOrder"
_EXPLICIT = "CliqueStartupTypeExplicit"
_POD_INFO = "grove-pod-info"
_TOKEN = "grove-initc-token"
_INIT_CPU, _INIT_MEMORY = "200m", "128Mi"
_INIT_USER = 65532
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


class Parent(NamedTuple):
    """A PodClique that has to be up first, and with how many pods."""

    clique: str
    at_least: int


def has_order(podcliqueset: PodCliqueSet) -> bool:
    """Whether any clique waits for another one."""
    template = podcliqueset.spec.template
    return any(_earlier(podcliqueset, clique.name) for clique in template.cliques)


def parents_of(podcliqueset: PodCliqueSet, member: Member) -> tuple[Parent, ...]:
    """The PodCliques that a member waits for. In a scaled gang only those of the same group replica count."""
    return tuple(
        parent
        for clique in _earlier(podcliqueset, member.template.name)
        for parent in _members_of(podcliqueset, clique, member)
    )


def init_container(image: str, parents: tuple[Parent, ...], pod_security: Json) -> Json:
    """Waits until every parent has enough Ready pods in this gang.

    It passes the `restricted` Pod Security Standard, and states requests and limits for quotas by limits. They are
    equal, so that a Guaranteed pod stays Guaranteed.
    """
    few = {"cpu": _INIT_CPU, "memory": _INIT_MEMORY}
    return {
        "name": INIT_CONTAINER,
        "image": image,
        "command": ["spinney", "initc"],
        "args": [f"--podcliques={parent.clique}:{parent.at_least}" for parent in parents],
        "resources": {"requests": few, "limits": dict(few)},
        "securityContext": _restricted(pod_security),
        "volumeMounts": [
            {"name": _POD_INFO, "mountPath": POD_INFO_PATH, "readOnly": True},
            {"name": _TOKEN, "mountPath": _TOKEN_PATH, "readOnly": True},
        ],
    }


def _restricted(pod_security: Json) -> Json:
    """A pod that runs as root gives this container another user; otherwise it has that of the pod or of the image."""
    is_root = pod_security.get("runAsUser") == 0
    return {
        "runAsNonRoot": True,
        **({"runAsUser": _INIT_USER} if is_root else {}),
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def volumes(podcliqueset: str) -> list[Json]:
    """What the init container reads: who its pod is, and the token that may watch pods and nothing else."""
    files = [
        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
        {"path": "podgangname", "fieldRef": {"fieldPath": f"metadata.labels['{PODGANG}']"}},
    ]
    return [
        {"name": _POD_INFO, "downwardAPI": {"items": files}},
        {"name": _TOKEN, "secret": {"secretName": generated_names.token_secret(podcliqueset)}},
    ]


def _earlier(podcliqueset: PodCliqueSet, clique: str) -> tuple[str, ...]:
    """The cliques of the template that come before one."""
    template = podcliqueset.spec.template
    names = [each.name for each in template.cliques]
    position = names.index(clique)
    if template.clique_startup_type == _IN_ORDER:
        return tuple(names[position - 1 : position]) if position else ()
    if template.clique_startup_type == _EXPLICIT:
        return tuple(name for name in template.cliques[position].spec.starts_after if name in names)
    return ()


def _members_of(podcliqueset: PodCliqueSet, clique: str, member: Member) -> Iterator[Parent]:
    template, name = podcliqueset.spec.template, podcliqueset.metadata.name
    at_least = min_available(next(each for each in template.cliques if each.name == clique))
    group = next((each for each in template.pod_clique_scaling_groups if clique in each.clique_names), None)
    if group is None:
        if not member.base_gang:
            yield Parent(generated_names.podclique(name, member.replica, clique), at_least)
        return
    replicas: range = range(group.min_available)
    if member.base_gang:
        same = member.group is not None and member.group.config.name == group.name
        replicas = range(member.group_replica, member.group_replica + 1) if same else range(0)
    for group_replica in replicas:
        fqn = generated_names.scaling_group_podclique(name, member.replica, group.name, group_replica, clique)
        yield Parent(fqn, at_least)


@dataclass(frozen=True, slots=True)
class PodInput:
    """What all pods of a PodClique have in common beside its template."""

    podcliqueset: PodCliqueSet
    clique: PodClique
    member: Member
    backend: Backend
    node_keys: tuple[str, ...] = ()
    init_image: str = ""
    mnnvl: bool = False
    parents: tuple[Parent, ...] = ()


def pod(pod_input: PodInput, index: int, name: str) -> Create:
    """The pod with this index."""
    clique, member = pod_input.clique, pod_input.member
    marks = pod_input.backend.mark_pod(member.gang, member.name)
    labels = {key: value for key, value in without_reserved(clique.metadata.labels).items() if key != APP_COMPONENT}
    labels |= {PODCLIQUE: member.name, POD_INDEX: str(index), **marks.labels}
    annotations = without_reserved(clique.metadata.annotations)
    annotations.pop(TOPOLOGY_NAME, None)
    annotations |= marks.annotations
    if pod_input.node_keys:
        annotations[NODE_KEYS] = ",".join(pod_input.node_keys)
    create = new_object(
        PODS.at(name, clique.metadata.namespace),
        labels=labels,
        annotations=annotations,
        owner=owner_reference(PODCLIQUES, clique.metadata),
        spec=_spec(pod_input, index),
    )
    create.body["metadata"]["generateName"] = generated_names.pod_prefix(member.name)
    return create


def taken_indices(pods: Iterable[Pod]) -> set[int]:
    return {int(text) for each in pods if (text := each.metadata.labels.get(POD_INDEX, "")).isdecimal()}


def free_indices(pods: Iterable[Pod], count: int) -> list[int]:
    """The lowest indices that none of these pods has."""
    taken = taken_indices(pods)
    found: list[int] = []
    index = 0
    while len(found) < count:
        if index not in taken:
            found.append(index)
        index += 1
    return found


def _spec(pod_input: PodInput, index: int) -> Json:
    template, name = pod_input.clique.spec.pod_spec, pod_input.podcliqueset.metadata.name
    if pod_input.mnnvl:
        template = compute_domains.with_claim(pod_input.podcliqueset, pod_input.member, template)
    environment = _environment(pod_input)
    claims = resource_claims.claims_of(pod_input.podcliqueset, pod_input.member, index)
    spec: Json = {
        **template,
        "containers": _with_environment(template.get("containers") or (), environment, claims),
        "schedulingGates": [*(template.get("schedulingGates") or ()), {"name": GATE_PODGANG_PENDING}],
        "hostname": generated_names.pod_hostname(pod_input.member.name, index),
        "subdomain": generated_names.headless_service(name, pod_input.member.replica),
        "schedulerName": pod_input.backend.name,
        "restartPolicy": "Always",
    }
    ranked = pod_input.podcliqueset.spec.template.priority_class_name
    if ranked and not template.get("priorityClassName"):
        spec["priorityClassName"] = ranked
    initial = _with_environment(template.get("initContainers") or (), environment, claims)
    if pod_input.parents:
        security = template.get("securityContext") or {}
        initial.append(init_container(pod_input.init_image, pod_input.parents, security))
        spec["volumes"] = [*(template.get("volumes") or ()), *volumes(name)]
    if initial:
        spec["initContainers"] = initial
    if pod_input.node_keys:
        spec["affinity"] = with_required_keys(template.get("affinity") or {}, pod_input.node_keys)
    if claims:
        spec["resourceClaims"] = [*(template.get("resourceClaims") or ()), *claims]
    return spec


def _environment(pod_input: PodInput) -> list[Json]:
    member, metadata = pod_input.member, pod_input.podcliqueset.metadata
    host = generated_names.headless_service_host(metadata.name, member.replica, metadata.namespace)
    found = [
        _value(ENV_PCS_NAME, metadata.name),
        _value(ENV_PCS_INDEX, str(member.replica)),
        _value(ENV_PCLQ_NAME, member.name),
        _value(ENV_HEADLESS_SERVICE, host),
        _from_label(ENV_PCLQ_POD_INDEX, POD_INDEX),
    ]
    if member.group is not None:
        by_name = {clique.name: clique for clique in pod_input.podcliqueset.spec.template.cliques}
        total = sum(pod_count(by_name[name]) for name in member.group.config.clique_names if name in by_name)
        found += [
            _value(ENV_PCSG_NAME, member.group.name),
            _from_label(ENV_PCSG_INDEX, SCALING_GROUP_REPLICA_INDEX),
            _value(ENV_PCSG_TEMPLATE_NUM_PODS, str(total)),
        ]
    return found


def _value(name: str, value: str) -> Json:
    return {"name": name, "value": value}


def _from_label(name: str, label: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{label}']"}}}


def _with_environment(containers: Sequence[Json], environment: list[Json], claims: list[Json]) -> list[Json]:
    """Ours first, so that the template's entries may refer to them; its entries of the same name give way."""
    ours = {each["name"] for each in environment}
    result = []
    for container in containers:
        theirs = [each for each in container.get("env") or () if each.get("name") not in ours]
        changed = {**container, "env": [*environment, *theirs]}
        if claims:
            changed["resources"] = _with_claims(container.get("resources") or {}, claims)
        result.append(changed)
    return result


def _with_claims(resources: Mapping[str, object], claims: list[Json]) -> Json:
    theirs = resources.get("claims") or ()
    assert isinstance(theirs, (list, tuple))
    return {**resources, "claims": [*theirs, *({"name": claim["name"]} for claim in claims)]}


def with_required_keys(affinity: Json, keys: tuple[str, ...]) -> Json:
    """The affinity with every alternative narrowed to nodes that carry all the keys (T6)."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    node = affinity.get("nodeAffinity") or {}
    terms = (node.get(field) or {}).get("nodeSelectorTerms") or [{}]
    ours = [{"key": key, "operator": "Exists"} for key in keys]
    narrowed = [{**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *ours]} for term in terms]
    return {**affinity, "nodeAffinity": {**node, field: {"nodeSelectorTerms": narrowed}}}
