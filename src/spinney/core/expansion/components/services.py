"""The headless Service of a set replica: pods find each other by name."""

from __future__ import annotations

from collections.abc import Sequence

from spinney.api import generated_names
from spinney.api.builtin.surroundings import Service
from spinney.api.changes import Change, Json
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import (
    APP_MANAGED_BY,
    APP_PART_OF,
    COMPONENT_HEADLESS_SERVICE,
    MANAGED_BY_OPERATOR,
    PODCLIQUESET_REPLICA_INDEX,
)
from spinney.core.expansion.objects import (
    PODCLIQUESETS,
    SERVICES,
    delete,
    difference,
    entries_patch,
    managed_labels,
    new_object,
    owner_reference,
    patch_object,
)


def expand(podcliqueset: PodCliqueSet, services: Sequence[Service]) -> list[Change]:
    """One Service for each replica; Services of other replicas are deleted."""
    metadata = podcliqueset.metadata
    by_name = {service.metadata.name: service for service in services}
    changes: list[Change] = []
    for replica in range(podcliqueset.spec.replicas):
        name = generated_names.headless_service(metadata.name, replica)
        live = by_name.pop(name, None)
        changes += _service(podcliqueset, replica, name) if live is None else _put_right(podcliqueset, replica, live)
    for surplus in by_name.values():
        changes += delete(SERVICES, surplus.metadata)
    return changes


def _publishes(podcliqueset: PodCliqueSet) -> bool:
    config = podcliqueset.spec.template.headless_service_config
    return config.publish_not_ready_addresses if config is not None else True


def _selector(podcliqueset: PodCliqueSet, replica: int) -> dict[str, str]:
    return {
        APP_MANAGED_BY: MANAGED_BY_OPERATOR,
        APP_PART_OF: podcliqueset.metadata.name,
        PODCLIQUESET_REPLICA_INDEX: str(replica),
    }


def _labels(podcliqueset: PodCliqueSet, replica: int, name: str) -> dict[str, str]:
    labels = managed_labels(podcliqueset.metadata.name, name, COMPONENT_HEADLESS_SERVICE)
    return labels | {PODCLIQUESET_REPLICA_INDEX: str(replica)}


def _service(podcliqueset: PodCliqueSet, replica: int, name: str) -> list[Change]:
    metadata = podcliqueset.metadata
    labels = _labels(podcliqueset, replica, name)
    spec: Json = {
        "clusterIP": "None",
        "selector": _selector(podcliqueset, replica),
        "publishNotReadyAddresses": _publishes(podcliqueset),
    }
    owner = owner_reference(PODCLIQUESETS, metadata)
    return [new_object(SERVICES.at(name, metadata.namespace), labels=labels, owner=owner, spec=spec)]


def _put_right(podcliqueset: PodCliqueSet, replica: int, live: Service) -> tuple[Change, ...]:
    if live.metadata.deletion_timestamp is not None:
        return ()
    known = {"publishNotReadyAddresses": live.spec.publish_not_ready_addresses, "selector": live.spec.selector}
    wanted = {"publishNotReadyAddresses": _publishes(podcliqueset), "selector": _selector(podcliqueset, replica)}
    labels = entries_patch(live.metadata.labels, _labels(podcliqueset, replica, live.metadata.name))
    patch: Json = {"metadata": {"labels": labels} if labels else {}, "spec": difference(known, wanted)}
    return patch_object(SERVICES, live.metadata, patch)
