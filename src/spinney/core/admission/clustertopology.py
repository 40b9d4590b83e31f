"""ClusterTopology: levels put into order, and kept while sets with scheduled pods use them (T4, L4, C9)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, not_supported
from spinney.api.domains import DOMAINS, HOST, is_domain, rank
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.labels import APP_PART_OF, HOSTNAME
from spinney.core.admission.decoding import part, read, text
from spinney.core.admission.findings import Findings
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.topology_constraints import constrained, effective_topology

# Who uses a topology, and whose pods are scheduled, as far as a look-up shows it.

_OVER = ("Succeeded", "Failed")


def has_scheduled_pods(lookup: Lookup, namespace: str, name: str) -> bool:
    """Whether any pod of the set has a node: by the status of its PodCliques, or by a pod that is ahead of it."""
    labels = {APP_PART_OF: name}
    cliques = lookup.listing(PodClique.GROUP, PodClique.PLURAL, namespace, labels)
    if any(_scheduled_replicas(clique) for clique in cliques):
        return True
    return any(_has_node(pod) for pod in lookup.listing("", "pods", namespace, labels))


def scheduled_users(lookup: Lookup, topology: str, default: str) -> list[str]:
    """`namespace/name` of every set that uses the topology and has scheduled pods, sorted."""
    users = {
        (found.metadata.namespace, found.metadata.name)
        for obj in lookup.listing(PodCliqueSet.GROUP, PodCliqueSet.PLURAL)
        if isinstance(found := read(obj, PodCliqueSet), PodCliqueSet)
        and constrained(found)
        and effective_topology(found, default, scheduled=True) == topology
    }
    if not users:
        return []
    scheduled = {
        _set_of(clique) for clique in lookup.listing(PodClique.GROUP, PodClique.PLURAL) if _scheduled_replicas(clique)
    }
    return sorted("/".join(key) for key in users & scheduled)


def _set_of(clique: Object) -> tuple[str, str]:
    metadata = part(clique, "metadata")
    return text(metadata.get("namespace")), text(part(metadata, "labels").get(APP_PART_OF))


def _scheduled_replicas(clique: Object) -> bool:
    found = part(clique, "status").get("scheduledReplicas")
    return isinstance(found, int) and found > 0


def _has_node(pod: Object) -> bool:
    return bool(part(pod, "spec").get("nodeName")) and part(pod, "status").get("phase") not in _OVER


_SHOWN_BLOCKERS = 50


def ordered(obj: Object) -> Object | None:
    """The topology with its levels broad to narrow; None where they are already, or cannot be told apart."""
    levels = part(obj, "spec").get("levels")
    if not isinstance(levels, list) or not all(_has_domain(level) for level in levels):
        return None
    wanted = sorted(levels, key=lambda level: rank(level["domain"]))
    if all(one is other for one, other in zip(wanted, levels, strict=True)):
        return None
    return {**obj, "spec": {**obj["spec"], "levels": wanted}}


def _has_domain(level: Any) -> bool:
    return isinstance(level, dict) and isinstance(level.get("domain"), str) and is_domain(level["domain"])


def check(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    topology = read(request.object, ClusterTopology)
    if isinstance(topology, FieldError):
        found.refuse(topology)
        return
    old = read(request.old_object, ClusterTopology) if request.operation == "UPDATE" else None
    changed = not isinstance(old, ClusterTopology) or _levels(old) != _levels(topology)
    if not changed:
        return
    found.refuse_all(_bad_levels(topology))
    _warn(request, topology, settings, found)
    if request.operation == "UPDATE" and not _is_own_write(request, settings):
        found.refuse_all(_blockers(request.name, settings, lookup))


def _levels(topology: ClusterTopology) -> list[tuple[str, str]]:
    """In the order of the domains: another order of the same levels is no change."""
    return sorted((level.domain, level.key) for level in topology.spec.levels)


def _bad_levels(topology: ClusterTopology) -> Iterable[FieldError]:
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(topology.spec.levels):
        path = f"spec.levels[{index}]"
        if not is_domain(level.domain):
            yield not_supported(f"{path}.domain", level.domain, DOMAINS)
        if level.domain in domains:
            yield duplicate(f"{path}.domain", level.domain)
        if level.key in keys:
            yield duplicate(f"{path}.key", level.key)
        domains.add(level.domain)
        keys.add(level.key)


def _is_own_write(request: AdmissionRequest, settings: AdmissionSettings) -> bool:
    """The operator brings its default topology in line at start-up, whatever runs (C3)."""
    return request.user in settings.operator_users and request.name == settings.default_topology


def _warn(request: AdmissionRequest, topology: ClusterTopology, settings: AdmissionSettings, found: Findings) -> None:
    reserved = settings.writes_default and request.name == settings.default_topology
    if reserved and request.user not in settings.operator_users:
        found.warn(
            f'the name "{request.name}" is reserved for the default ClusterTopology: '
            "the operator overwrites it from its configuration when it starts; "
            "choose another name for a topology of your own"
        )
    for index, level in enumerate(topology.spec.levels):
        if level.domain == HOST and level.key != HOSTNAME:
            found.warn(f'spec.levels[{index}].key: kubelets label hosts with "{HOSTNAME}", found "{level.key}"')


def _blockers(name: str, settings: AdmissionSettings, lookup: Lookup) -> Iterable[FieldError]:
    users = scheduled_users(lookup, name, settings.default_topology)
    if not users:
        return
    shown = ", ".join(users[:_SHOWN_BLOCKERS])
    more = f" and {len(users) - _SHOWN_BLOCKERS} more" if len(users) > _SHOWN_BLOCKERS else ""
    yield forbidden(
        "spec.levels",
        "topology levels cannot be changed while PodCliqueSets with scheduled pods reference "
        f'ClusterTopology "{name}": {shown}{more}',
    )
