"""Autoscalers: one for each clique or group of a set replica that says how far it may be scaled (2.9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spinney.api import generated_names
from spinney.api.builtin.workloads import CrossVersionObjectReference, HorizontalPodAutoscaler
from spinney.api.changes import Change, Json, Resource
from spinney.api.kinds.podclique import AutoScaling
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import COMPONENT_AUTOSCALER, POD_TEMPLATE_HASH, PODCLIQUESET_REPLICA_INDEX
from spinney.core.expansion.objects import (
    AUTOSCALERS,
    PODCLIQUES,
    PODCLIQUESETS,
    SCALING_GROUPS,
    delete,
    entries_patch,
    managed_labels,
    new_object,
    owner_reference,
    patch_object,
    short_hash,
    to_builtins,
)
from spinney.core.expansion.podcliqueset.set_layout import pod_count, standalone_members


def expand(podcliqueset: PodCliqueSet, autoscalers: Sequence[HorizontalPodAutoscaler]) -> list[Change]:
    by_name = {each.metadata.name: each for each in autoscalers}
    changes: list[Change] = []
    for replica in range(podcliqueset.spec.replicas):
        for resource, target, config, least in _wanted(podcliqueset, replica):
            live = by_name.pop(generated_names.autoscaler(target), None)
            spec = _spec(resource, target, config, least)
            changes += _create(podcliqueset, replica, target, spec) if live is None else _put_right(live, spec)
    surplus = [change for each in by_name.values() for change in delete(AUTOSCALERS, each.metadata)]
    return [*surplus, *changes]


def _wanted(podcliqueset: PodCliqueSet, replica: int) -> Iterator[tuple[Resource, str, AutoScaling, int]]:
    for member in standalone_members(podcliqueset, replica):
        config = member.template.spec.auto_scaling_config
        if config is not None:
            yield PODCLIQUES, member.name, config, pod_count(member.template)
    for group in podcliqueset.spec.template.pod_clique_scaling_groups:
        if group.scale_config is not None:
            name = generated_names.scaling_group(podcliqueset.metadata.name, replica, group.name)
            yield SCALING_GROUPS, name, group.scale_config, group.replicas


def _spec(resource: Resource, target: str, config: AutoScaling, least: int) -> Json:
    spec: Json = {
        "scaleTargetRef": {"apiVersion": resource.api_version, "kind": resource.kind, "name": target},
        "minReplicas": config.min_replicas if config.min_replicas is not None else least,
        "maxReplicas": config.max_replicas,
    }
    if config.metrics:
        spec["metrics"] = to_builtins(config.metrics)
    return spec


def _create(podcliqueset: PodCliqueSet, replica: int, target: str, spec: Json) -> list[Change]:
    metadata, name = podcliqueset.metadata, generated_names.autoscaler(target)
    labels = managed_labels(metadata.name, name, COMPONENT_AUTOSCALER)
    labels |= {PODCLIQUESET_REPLICA_INDEX: str(replica), POD_TEMPLATE_HASH: short_hash(spec)}
    owner = owner_reference(PODCLIQUESETS, metadata)
    return [new_object(AUTOSCALERS.at(name, metadata.namespace), labels=labels, owner=owner, spec=spec)]


def _put_right(live: HorizontalPodAutoscaler, spec: Json) -> tuple[Change, ...]:
    """The server normalises metrics: a label with the hash of the written spec shows whether they are still ours."""
    if live.metadata.deletion_timestamp is not None:
        return ()
    label = {POD_TEMPLATE_HASH: short_hash(spec)}
    reference = CrossVersionObjectReference(**_snake(spec["scaleTargetRef"]))
    same = (live.spec.scale_target_ref, live.spec.min_replicas, live.spec.max_replicas) == (
        reference,
        spec["minReplicas"],
        spec["maxReplicas"],
    )
    relabelled = entries_patch(live.metadata.labels, label)
    if same and not relabelled:
        return ()
    return patch_object(AUTOSCALERS, live.metadata, {"metadata": {"labels": relabelled}, "spec": spec})


def _snake(reference: Json) -> Json:
    return {"api_version": reference["apiVersion"], "kind": reference["kind"], "name": reference["name"]}
