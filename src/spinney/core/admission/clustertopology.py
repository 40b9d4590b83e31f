"""ClusterTopology: levels put into order, and kept while sets with scheduled pods use them (T4, L4, C9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, not_supported
from spinney.api.domains import DOMAINS, HOST, is_domain, rank
from spinney.api.kinds.clustertopology import AnyTopology, ClusterTopology, ClusterTopologyBinding
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


KINDS: Mapping[str, type[ClusterTopology] | type[ClusterTopologyBinding]] = {
    kind.PLURAL: kind for kind in (ClusterTopology, ClusterTopologyBinding)
}


def find_topology(lookup: Lookup, name: str) -> AnyTopology | None:
    """The topology of that name, of whichever kind counts (T8)."""
    group = ClusterTopology.GROUP
    binding = read(lookup(group, ClusterTopologyBinding.PLURAL, "", name), ClusterTopologyBinding)
    if not isinstance(binding, FieldError):
        return binding
    topology = read(lookup(group, ClusterTopology.PLURAL, "", name), ClusterTopology)
    return topology if not isinstance(topology, FieldError) else None


def check(request: AdmissionRequest, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    kind = KINDS[request.resource]
    topology = read(request.object, kind)
    if isinstance(topology, FieldError):
        found.refuse(topology)
        return
    old = read(request.old_object, kind) if request.operation == "UPDATE" else None
    changed = isinstance(old, FieldError) or old is None or _levels(old) != _levels(topology)
    if isinstance(topology, ClusterTopologyBinding):
        found.refuse_all(_bad_bindings(topology, settings))
    if not changed:
        return
    _warn_of_namesake(kind, request.name, lookup, found)
    found.refuse_all(_bad_levels(topology))
    _warn(request, topology, settings, found)
    if request.operation == "UPDATE" and settings.protects_topologies and not _is_own_write(request, settings):
        found.refuse_all(_blockers(kind, request.name, settings, lookup))


def _levels(topology: AnyTopology) -> list[tuple[str, str]]:
    """In the order of the domains: another order of the same levels is no change."""
    return sorted((level.domain, level.key) for level in topology.spec.levels)


def _bad_levels(topology: AnyTopology) -> Iterable[FieldError]:
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


def _warn(request: AdmissionRequest, topology: AnyTopology, settings: AdmissionSettings, found: Findings) -> None:
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


def _bad_bindings(topology: ClusterTopologyBinding, settings: AdmissionSettings) -> Iterable[FieldError]:
    seen: set[str] = set()
    for index, bound in enumerate(topology.spec.scheduler_topology_bindings):
        path, name = f"spec.schedulerTopologyBindings[{index}].schedulerName", bound.scheduler_name
        known = settings.backends.get(name)
        if name in seen:
            yield duplicate(path, name)
        elif known is None:
            yield invalid(path, name, "scheduler backend is not enabled in Grove")
        elif not known.required_topology:
            yield invalid(path, name, "scheduler backend does not implement topology-aware scheduling")
        seen.add(name)


def _warn_of_namesake(kind: type[AnyTopology], name: str, lookup: Lookup, found: Findings) -> None:
    other = ClusterTopology if kind is ClusterTopologyBinding else ClusterTopologyBinding
    if name and lookup(other.GROUP, other.PLURAL, "", name) is not None:
        found.warn(
            f'there is a {other.KIND} "{name}" too: the ClusterTopologyBinding counts, '
            "and the ClusterTopology of the same name has no effect"
        )


def _blockers(kind: type[AnyTopology], name: str, settings: AdmissionSettings, lookup: Lookup) -> Iterable[FieldError]:
    if kind is ClusterTopology and lookup(kind.GROUP, ClusterTopologyBinding.PLURAL, "", name) is not None:
        return  # it does not count
    users = scheduled_users(lookup, name, settings.default_topology)
    if not users:
        return
    shown = ", ".join(users[:_SHOWN_BLOCKERS])
    more = f" and {len(users) - _SHOWN_BLOCKERS} more" if len(users) > _SHOWN_BLOCKERS else ""
    yield forbidden(
        "spec.levels",
        "topology levels cannot be changed while PodCliqueSets with scheduled pods reference "
        f'{kind.KIND} "{name}": {shown}{more}',
    )
