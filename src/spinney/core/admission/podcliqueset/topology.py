"""The topology of a set: switched on, existing, one name, known domains, narrower downwards (P2, P3, P5, P6, P10)."""

from __future__ import annotations

from collections.abc import Iterable

from kube_apimachinery.admission import Lookup
from kube_apimachinery.field_errors import FieldError, forbidden, invalid
from spinney.api.domains import is_domain, is_narrower
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.core.admission.clustertopology import find_topology
from spinney.core.admission.findings import Findings
from spinney.core.admission.settings import AdmissionSettings
from spinney.core.topology_constraints import (
    NAME_PATH,
    ConstraintSite,
    clique_sites,
    constrained,
    effective_topology,
    group_sites,
    named,
    reference,
    set_site,
)

NOT_ENABLED = "topology support is not enabled in the operator"
_DISABLED = f"topology constraints are not allowed when Topology Aware Scheduling is disabled: {NOT_ENABLED}"
_NO_CONSTRAINT = (
    "clusterTopologyName is set but no topologyConstraint is specified on the PodCliqueSet, "
    "any PodCliqueScalingGroup or any PodClique"
)
_NAMES_DIFFER = (
    "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
)


def check_topology(podcliqueset: PodCliqueSet, settings: AdmissionSettings, lookup: Lookup, found: Findings) -> None:
    """Everything that a new set, or a new reference, has to fulfil."""
    limited = constrained(podcliqueset)
    path, name = reference(podcliqueset)
    if name and not limited:
        found.refuse(invalid(path, name, _NO_CONSTRAINT))
    if not settings.topology_enabled:
        found.refuse_all(_disabled(podcliqueset, limited))
        return
    found.refuse_all(_conflicting_names(podcliqueset))
    found.refuse_all(_broader_children(podcliqueset))
    for site in limited:
        _warn_of_redundance(site, found)
    if limited or name:
        _check_domains(limited, path, name, settings.default_topology, lookup, found)


def _disabled(podcliqueset: PodCliqueSet, limited: list[ConstraintSite]) -> Iterable[FieldError]:
    name = podcliqueset.spec.template.cluster_topology_name
    if name:
        yield invalid(NAME_PATH, name, f"clusterTopologyName cannot be used: {NOT_ENABLED}")
    for site in limited:
        yield invalid(site.path, site.required or site.preferred, _DISABLED)


def _conflicting_names(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    given = list(named(podcliqueset))
    wanted = podcliqueset.spec.template.cluster_topology_name
    if wanted:
        for path, name in given:
            if name != wanted:
                yield invalid(path, name, f'topologyName must equal clusterTopologyName "{wanted}"')
    elif len({name for _, name in given}) > 1:
        for path, name in given:
            yield invalid(path, name, _NAMES_DIFFER)


def _check_domains(
    limited: list[ConstraintSite], path: str, explicit: str, default: str, lookup: Lookup, found: Findings
) -> None:
    name = explicit or default
    topology = find_topology(lookup, name)
    if topology is None:
        how = "" if explicit else ": it is the default, and the set names no other"
        found.refuse(invalid(path, name, f'ClusterTopology "{name}" not found{how}'))
        return
    if topology.metadata.deletion_timestamp:
        found.warn(f'{topology.KIND} "{name}" is being deleted, and stays only as long as sets use it')
    levels = [level.domain for level in topology.spec.levels]
    for site in limited:
        for domain, where in ((site.required, site.required_path), (site.preferred, site.preferred_path)):
            if domain and domain not in levels:
                shown = " ".join(levels)
                found.refuse(
                    invalid(where, domain, f"topology domain '{domain}' does not exist in cluster topology [{shown}]")
                )


def _broader_children(podcliqueset: PodCliqueSet) -> Iterable[FieldError]:
    """Required is compared with required and preferred with preferred; equal is allowed."""
    cliques = {site.name: site for site in clique_sites(podcliqueset)}
    groups = group_sites(podcliqueset)
    for child in (*groups, *cliques.values()):
        yield from _broader(set_site(podcliqueset), child)
    for group, site in zip(podcliqueset.spec.template.pod_clique_scaling_groups, groups, strict=True):
        for name in dict.fromkeys(group.clique_names):
            if name in cliques:
                yield from _broader(site, cliques[name])


def _broader(parent: ConstraintSite, child: ConstraintSite) -> Iterable[FieldError]:
    halves = (
        (parent.required, child.required, parent.path),
        (parent.preferred, child.preferred, parent.preferred_path),
    )
    for above, below, path in halves:
        if is_domain(above) and is_domain(below) and is_narrower(above, below):
            text = (
                f"{parent.title} topology constraint domain '{above}' is narrower than "
                f"{child.title} topology constraint domain '{below}'"
            )
            yield invalid(path, above, text)


def _warn_of_redundance(site: ConstraintSite, found: Findings) -> None:
    if is_domain(site.required) and is_domain(site.preferred) and is_narrower(site.required, site.preferred):
        found.warn(f"{site.preferred_path} is coarser than {site.required_path} and is redundant")


def constraint_changes(podcliqueset: PodCliqueSet, old: PodCliqueSet) -> Iterable[FieldError]:
    """P4. The spelling may change, the meaning may not. Cliques and groups that are not in both are told elsewhere."""
    before = {(site.kind, site.name): site for site in (set_site(old), *group_sites(old), *clique_sites(old))}
    for site in (set_site(podcliqueset), *group_sites(podcliqueset), *clique_sites(podcliqueset)):
        was = before.get((site.kind, site.name))
        if was is not None:
            yield from _change(was, site)


def _change(was: ConstraintSite, site: ConstraintSite) -> Iterable[FieldError]:
    if was.constraint is None and site.constraint is not None:
        yield forbidden(site.path, f"{site.title} topology constraint cannot be added after creation")
    elif was.constraint is not None and site.constraint is None:
        yield forbidden(site.path, f"{site.title} topology constraint cannot be removed after creation")
    elif (was.required, was.preferred) != (site.required, site.preferred):
        before, after = _shown(was), _shown(site)
        yield forbidden(site.path, f"{site.title} topology constraint cannot be changed from {before} to {after}")


def _shown(site: ConstraintSite) -> str:
    return f'required="{site.required}" preferred="{site.preferred}"'


def reference_change(podcliqueset: PodCliqueSet, old: PodCliqueSet, default: str) -> FieldError | None:
    """P5, once a pod is scheduled: the refusal of another reference, or None where it is the same.

    A topologyName (P10) may be added where it names the topology that is used already.
    """
    (path, name), (_, before) = reference(podcliqueset), reference(old)
    added = not before and path != NAME_PATH
    if name == before or (added and name == effective_topology(old, default, scheduled=True)):
        return None
    field = path.rpartition(".")[2]
    return forbidden(path, f'{field} cannot be changed from "{before}" to "{name}" once pods are scheduled')
