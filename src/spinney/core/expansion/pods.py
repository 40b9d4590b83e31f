"""A pod of a PodClique, made of its opaque template and what the operator adds: names, labels, environment, gate.

Never changes the template: what is added to is copied first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spinney.api import naming
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
    NODE_KEYS,
    POD_INDEX,
    PODCLIQUE,
    SCALING_GROUP_REPLICA_INDEX,
    TOPOLOGY_NAME,
)
from spinney.api.reserved_keys import without_reserved
from spinney.core.expansion import compute_domains, sharing, startup
from spinney.core.expansion.backends import Backend
from spinney.core.expansion.objects import new_object, owner_reference
from spinney.core.expansion.pod_state import Pod
from spinney.core.expansion.resources import PODCLIQUES, PODS
from spinney.core.expansion.shape import Member, pod_count


@dataclass(frozen=True, slots=True)
class Recipe:
    """What all pods of a PodClique have in common beside its template."""

    podcliqueset: PodCliqueSet
    clique: PodClique
    member: Member
    backend: Backend
    node_keys: tuple[str, ...] = ()
    init_image: str = ""
    mnnvl: bool = False
    parents: tuple[startup.Parent, ...] = ()


def pod(recipe: Recipe, index: int, name: str) -> Create:
    """The pod with this index."""
    clique, member = recipe.clique, recipe.member
    marks = recipe.backend.mark_pod(member.gang, member.name)
    labels = {key: value for key, value in without_reserved(clique.metadata.labels).items() if key != APP_COMPONENT}
    labels |= {PODCLIQUE: member.name, POD_INDEX: str(index), **marks.labels}
    annotations = without_reserved(clique.metadata.annotations)
    annotations.pop(TOPOLOGY_NAME, None)
    annotations |= marks.annotations
    if recipe.node_keys:
        annotations[NODE_KEYS] = ",".join(recipe.node_keys)
    create = new_object(
        PODS.at(name, clique.metadata.namespace),
        labels=labels,
        annotations=annotations,
        owner=owner_reference(PODCLIQUES, clique.metadata),
        spec=_spec(recipe, index),
    )
    create.body["metadata"]["generateName"] = naming.pod_prefix(member.name)
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


def _spec(recipe: Recipe, index: int) -> Json:
    template, name = recipe.clique.spec.pod_spec, recipe.podcliqueset.metadata.name
    environment = _environment(recipe)
    claims = sharing.claims_of(recipe.podcliqueset, recipe.member, index)
    linked = compute_domains.claims_of(recipe.podcliqueset, recipe.member) if recipe.mnnvl else []
    spec: Json = {
        **template,
        "containers": _with_environment(template.get("containers") or (), environment, claims, linked),
        "schedulingGates": [*(template.get("schedulingGates") or ()), {"name": GATE_PODGANG_PENDING}],
        "hostname": naming.pod_hostname(recipe.member.name, index),
        "subdomain": naming.headless_service(name, recipe.member.replica),
        "schedulerName": recipe.backend.name,
        "restartPolicy": "Always",
    }
    ranked = recipe.podcliqueset.spec.template.priority_class_name
    if ranked and not template.get("priorityClassName"):
        spec["priorityClassName"] = ranked
    initial = _with_environment(template.get("initContainers") or (), environment, claims, linked)
    if recipe.parents:
        initial.append(startup.init_container(recipe.init_image, recipe.parents))
        spec["volumes"] = [*(template.get("volumes") or ()), *startup.volumes(name)]
    if initial:
        spec["initContainers"] = initial
    if recipe.node_keys:
        spec["affinity"] = with_required_keys(template.get("affinity") or {}, recipe.node_keys)
    if claims or linked:
        spec["resourceClaims"] = [*(template.get("resourceClaims") or ()), *claims, *linked]
    return spec


def _environment(recipe: Recipe) -> list[Json]:
    member, metadata = recipe.member, recipe.podcliqueset.metadata
    host = naming.headless_service_host(metadata.name, member.replica, metadata.namespace)
    found = [
        _value(ENV_PCS_NAME, metadata.name),
        _value(ENV_PCS_INDEX, str(member.replica)),
        _value(ENV_PCLQ_NAME, member.name),
        _value(ENV_HEADLESS_SERVICE, host),
        _from_label(ENV_PCLQ_POD_INDEX, POD_INDEX),
    ]
    if member.group is not None:
        by_name = {clique.name: clique for clique in recipe.podcliqueset.spec.template.cliques}
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


def _with_environment(
    containers: Sequence[Json], environment: list[Json], claims: list[Json], linked: list[Json]
) -> list[Json]:
    """Ours first, so that the template's entries may refer to them; its entries of the same name give way.

    All containers get the claims, those with GPUs the linked ones as well.
    """
    ours = {each["name"] for each in environment}
    result = []
    for container in containers:
        theirs = [each for each in container.get("env") or () if each.get("name") not in ours]
        changed = {**container, "env": [*environment, *theirs]}
        given = [*claims, *linked] if compute_domains.wants_gpu(container) else claims
        if given:
            changed["resources"] = _with_claims(container.get("resources") or {}, given)
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
