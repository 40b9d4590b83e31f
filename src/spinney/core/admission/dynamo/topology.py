"""The topology of a new deployment: known domains, narrower downwards, levels of a topology that is there (D3, D7)."""

from __future__ import annotations

from collections.abc import Iterator

from kube_apimachinery.admission import Lookup, Object, Unreadable
from kube_apimachinery.field_errors import FieldError, forbidden, invalid, not_supported, required
from spinney.api.domains import DOMAINS, is_domain, is_narrower
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.core.admission.decoding import items, part, read
from spinney.core.admission.dynamo.defaults import GROVE, provider_of
from spinney.core.admission.dynamo.settings import DynamoAdmissionSettings
from spinney.core.admission.dynamo.validation import ONLY_GROVE
from spinney.core.expansion.dynamo.topology import overrides

GRAPH = "spec.topologyConstraint"
_TWICE = (
    "cannot be combined with spec.topologyConstraint or components[].topologyConstraint; "
    "use either the typed topology API or provider-native Grove topology overrides"
)


def places(obj: Object) -> list[tuple[str, str]]:
    """Paths and domains of everything that is asked for: the deployment first, then its components."""
    spec = part(obj, "spec")
    found = [(f"{GRAPH}.packDomain", str(part(spec, "topologyConstraint").get("packDomain") or ""))]
    for index, component in enumerate(items(spec.get("components"))):
        domain = part(component, "topologyConstraint").get("packDomain")
        found.append((f"spec.components[{index}].topologyConstraint.packDomain", str(domain or "")))
    return [(path, domain) for path, domain in found if domain]


def topology_errors(obj: Object, settings: DynamoAdmissionSettings, lookup: Lookup) -> Iterator[FieldError]:
    """Everything that is wrong, so that one round is enough."""
    spec, asked = part(obj, "spec"), places(obj)
    graph = spec.get("topologyConstraint")
    if not asked and graph is None:
        return
    if provider_of(obj) != GROVE:
        yield forbidden(GRAPH if graph is not None else asked[0][0].rpartition(".")[0], ONLY_GROVE)
        return
    yield from _said_twice(obj)
    if not asked:
        yield required(f"{GRAPH}.packDomain", "is required when no component topologyConstraint is set")
    for path, domain in asked:
        if not is_domain(domain):
            yield not_supported(path, domain, DOMAINS)
    yield from _broader(asked)
    yield from _absent(obj, asked, settings, lookup)


def _said_twice(obj: Object) -> Iterator[FieldError]:
    for path, fragment in overrides({"spec": part(obj, "spec")}):
        value = part(fragment, "value")
        inner = part(value, "spec", "template") if path == ("spec", "template") else value
        if "topologyConstraint" in inner:
            yield forbidden(f"{_override_path(obj, path)}.value", _TWICE)


def _override_path(obj: Object, path: tuple[str, ...]) -> str:
    if path == ("spec", "template"):
        return "spec.providerOverride"
    for index, component in enumerate(items(part(obj, "spec").get("components"))):
        name = str(component.get("name", "")).lower()
        for suffix, inner in (("", ""), ("-ldr", ".multinode.leader"), ("-wkr", ".multinode.worker")):
            if f"{name}{suffix}" == path[1]:
                return f"spec.components[{index}]{inner}.providerOverride"
    return "spec.providerOverride"


def _broader(asked: list[tuple[str, str]]) -> Iterator[FieldError]:
    """D3: equal to or narrower than the deployment's."""
    path, above = asked[0] if asked else ("", "")
    if not path.startswith(GRAPH) or not is_domain(above):
        return
    for where, below in asked[1:]:
        if is_domain(below) and is_narrower(above, below):
            text = f'must be equal to or narrower than the deployment-level domain "{above}"'
            yield invalid(where, below, text)


def _absent(
    obj: Object, asked: list[tuple[str, str]], settings: DynamoAdmissionSettings, lookup: Lookup
) -> Iterator[FieldError]:
    """D7: every domain is a level of the topology as it is now; a topology that cannot be read is a refusal."""
    path = f"{GRAPH}.clusterTopologyName"
    name = str(part(obj, "spec", "topologyConstraint").get("clusterTopologyName") or settings.default_topology)
    try:
        found = lookup(ClusterTopology.GROUP, ClusterTopology.PLURAL, "", name)
    except Unreadable as error:
        yield invalid(path, name, f"failed to read ClusterTopology: {error}")
        return
    topology = read(found, ClusterTopology) if found is not None else None
    if not isinstance(topology, ClusterTopology):
        yield invalid(path, name, "references a ClusterTopology resource that was not found")
        return
    levels = [level.domain for level in topology.spec.levels]
    shown = " ".join(sorted(levels))
    for where, domain in asked:
        if is_domain(domain) and domain not in levels:
            yield invalid(where, domain, f'does not exist in ClusterTopology "{name}"; available domains: [{shown}]')
