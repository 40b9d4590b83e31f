"""What a deployment has to fulfil: names that fit, an image, what can be rendered, its topology, what never changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_apimachinery.admission import Lookup, Object, Unreadable
from kube_apimachinery.field_errors import OMITTED, FieldError, forbidden, invalid, not_supported, required
from spinney.api.domains import DOMAINS, is_domain, is_narrower
from spinney.api.labels import DYNAMO_WORKLOAD_PROVIDER
from spinney.core.admission.clustertopology import find_topology
from spinney.core.admission.decoding import items, part, text
from spinney.core.admission.dynamo.defaults import CLIQUE, GROVE, SET, DynamoAdmissionSettings, provider_of, target_of
from spinney.core.admission.pod_fields import amount_errors, type_errors
from spinney.core.expansion.dynamo import generated_labels
from spinney.core.expansion.dynamo.roles import excess_pods, is_group
from spinney.core.expansion.dynamo.topology import overrides

# What cannot change once a deployment is there (D8, 2.3).

_RECREATE = (
    "is immutable and cannot be added, removed, or changed after creation; "
    "delete and recreate the DynamoGraphDeployment to change "
)
_ADAPTER = (
    "cannot be modified directly when scaling adapter is enabled; "
    "scale or update the related DynamoGraphDeploymentScalingAdapter instead"
)


def change_errors(obj: Object, old: Object, may_scale: bool, is_operator: bool) -> Iterator[FieldError]:
    """Everything that the change may not change. `may_scale`: also what an adapter owns."""
    new_spec, old_spec = part(obj, "spec"), part(old, "spec")
    yield from _provider(obj, old, is_operator)
    yield from _fixed(new_spec, old_spec, "topologyConstraint", "spec.topologyConstraint", "topology constraints")
    yield from _members(new_spec, old_spec)
    before = _by_name(old_spec)
    for index, component in enumerate(items(new_spec.get("components"))):
        was = before.get(component.get("name"))
        if was is not None:
            yield from _component(component, was, f"spec.components[{index}]", may_scale)
    now, then = (part(spec, "experimental") for spec in (new_spec, old_spec))
    path = "spec.experimental.kvTransferPolicy"
    yield from _fixed(now, then, "kvTransferPolicy", path, "the KV transfer policy")
    if new_spec.get("backendFramework", "") != old_spec.get("backendFramework", ""):
        value = new_spec.get("backendFramework", "")
        yield invalid("spec.backendFramework", value, "is immutable and cannot be changed after creation")
    yield from _override(new_spec, old_spec, "spec")


def change_warnings(obj: Object, old: Object) -> Iterator[str]:
    if part(obj, "spec").get("backendFramework", "") != part(old, "spec").get("backendFramework", ""):
        yield "Changing spec.backendFramework may cause unexpected behavior"


def _fixed(now: Object, then: Object, key: str, path: str, what: str) -> Iterator[FieldError]:
    if _given(now.get(key)) != _given(then.get(key)):
        yield invalid(path, now.get(key), _RECREATE + what)


def _given(value: Any) -> Any:
    return {key: one for key, one in value.items() if one != ""} if isinstance(value, dict) else value


def _members(now: Object, then: Object) -> Iterator[FieldError]:
    new = {str(one.get("name")) for one in items(now.get("components"))}
    old = set(_by_name(then))
    parts = [
        f"components {verb}: [{' '.join(sorted(names))}]"
        for verb, names in (("added", new - old), ("removed", old - new))
        if names
    ]
    if parts:
        text = "component topology is immutable and cannot be modified after creation: "
        yield forbidden("spec.components", text + ", ".join(parts))


def _by_name(spec: Object) -> dict[str, Object]:
    """The components of a stored deployment: whoever stored it may have had other rules."""
    components = [one for one in items(spec.get("components")) if isinstance(one, dict)]
    return {one["name"]: one for one in components if isinstance(one.get("name"), str)}


def _provider(obj: Object, old: Object, is_operator: bool) -> Iterator[FieldError]:
    """Who renders a deployment was decided with its creation; an old one may be told by the operator."""
    now, then = (part(one, "metadata", "annotations").get(DYNAMO_WORKLOAD_PROVIDER) for one in (obj, old))
    if now != then and not (then is None and is_operator):
        yield invalid(f"metadata.annotations[{DYNAMO_WORKLOAD_PROVIDER}]", now, "field is immutable")


def _component(now: Object, then: Object, path: str, may_scale: bool) -> Iterator[FieldError]:
    yield from _fixed(now, then, "topologyConstraint", f"{path}.topologyConstraint", "topology constraints")
    if bool(now.get("multinode")) != bool(then.get("multinode")):
        text = "cannot change node topology between single-node and multi-node after creation"
        yield invalid(f"{path}.multinode", now.get("multinode"), text)
    grove, grove_then = (part(one, "experimental", "grove") for one in (now, then))
    if bool(grove.get("forceScalingGroup")) != bool(grove_then.get("forceScalingGroup")):
        where = f"{path}.experimental.grove.forceScalingGroup"
        yield invalid(where, bool(grove.get("forceScalingGroup")), "is immutable and cannot be changed after creation")
    if (now.get("minAvailable") or 1) != (then.get("minAvailable") or 1):
        yield invalid(f"{path}.minAvailable", now.get("minAvailable"), "minAvailable is immutable after creation")
    owned = now.get("scalingAdapter") is not None and then.get("scalingAdapter") is not None
    if owned and not may_scale and now.get("replicas", 1) != then.get("replicas", 1):
        yield forbidden(f"{path}.replicas", _ADAPTER)
    yield from _override(now, then, path)
    for role in ("leader", "worker"):
        yield from _override(part(now, "multinode", role), part(then, "multinode", role), f"{path}.multinode.{role}")


def _override(now: Object, then: Object, path: str) -> Iterator[FieldError]:
    """May come and go; what it is meant for stays."""
    new, old = now.get("providerOverride"), then.get("providerOverride")
    if not isinstance(new, dict) or not isinstance(old, dict):
        return
    for key in ("apiVersion", "target"):
        if new.get(key) != old.get(key):
            yield invalid(f"{path}.providerOverride.{key}", new.get(key), "field is immutable")


ONLY_GROVE = "requires the Grove pathway, but this deployment is not rendered by Grove"
_OVERRIDE_API = "grove.io/v1alpha1"


def content_errors(obj: Object) -> Iterator[FieldError]:
    """In the order of the fields."""
    spec, on_grove = part(obj, "spec"), provider_of(obj) == GROVE
    if not on_grove and spec.get("priorityClassName"):
        yield forbidden("spec.priorityClassName", ONLY_GROVE)
    if not on_grove and part(spec, "experimental").get("kvTransferPolicy"):
        yield forbidden("spec.experimental.kvTransferPolicy", ONLY_GROVE)
    yield from _override_errors(spec, "spec", SET, "spec.template")
    yield from _unnamed("spec.env", spec.get("env"))
    for index, component in enumerate(items(spec.get("components"))):
        path = f"spec.components[{index}]"
        yield from _component_errors(component, path, on_grove)
    if excess := excess_pods(obj):
        yield forbidden("spec.components", f"the deployment would have {excess}")
    if on_grove:
        yield from _name_errors(obj)


def creation_errors(obj: Object) -> Iterator[FieldError]:
    """Asked of a new deployment only."""
    if part(obj, "spec").get("restart"):
        text = "must be unset on create; set spec.restart.id after creation to request a restart"
        yield forbidden("spec.restart", text)
    for index, component in enumerate(items(part(obj, "spec").get("components"))):
        path = f"spec.components[{index}].podTemplate.spec.containers"
        containers = items(part(component, "podTemplate", "spec").get("containers"))
        main = [at for at, one in enumerate(containers) if isinstance(one, dict) and one.get("name") == "main"]
        if not main:
            yield required(path, "is required")
        elif not containers[main[0]].get("image"):
            yield required(f"{path}[{main[0]}].image", "is required")
        sidecar = component.get("frontendSidecar")
        if sidecar and all(part(one).get("name") != sidecar for one in containers):
            text = "must match a podTemplate.spec.containers name"
            yield invalid(f"spec.components[{index}].frontendSidecar", sidecar, text)


def _component_errors(component: dict[str, Any], path: str, on_grove: bool) -> Iterator[FieldError]:
    least, replicas = component.get("minAvailable"), component.get("replicas", 1)
    if least is not None and not on_grove:
        yield forbidden(f"{path}.minAvailable", ONLY_GROVE)
    elif least is not None and replicas and least > replicas:
        yield invalid(
            f"{path}.minAvailable", least, "minAvailable must be less than or equal to replicas unless replicas is 0"
        )
    yield from _pod_errors(component, f"{path}.podTemplate")
    yield from _override_errors(component, path, target_of(component))
    for role in ("leader", "worker"):
        yield from _override_errors(part(component, "multinode", role), f"{path}.multinode.{role}", CLIQUE)


def _pod_errors(component: dict[str, Any], path: str) -> Iterator[FieldError]:
    """What no pod could be made of; the schema keeps whatever it finds in a template."""
    metadata = part(component, "podTemplate").get("metadata")
    for where, value in ((f"{path}.metadata", metadata), *_maps(f"{path}.metadata", metadata)):
        if value is not None and not isinstance(value, dict):
            yield invalid(where, text(value) or OMITTED, "must be an object")
    spec = part(component, "podTemplate", "spec")
    yield from type_errors(f"{path}.spec", spec)
    for index, container in enumerate(items(spec.get("containers"))):
        yield from _unnamed(f"{path}.spec.containers[{index}].env", part(container).get("env"))
    yield from amount_errors(f"{path}.spec", spec)


def _unnamed(path: str, env: Any) -> Iterator[FieldError]:
    for index, variable in enumerate(items(env)):
        if isinstance(variable, dict) and not variable.get("name"):
            yield required(f"{path}[{index}].name", "must name the variable")


def _maps(path: str, metadata: Any) -> list[tuple[str, Any]]:
    return [(f"{path}.{key}", part(metadata).get(key)) for key in ("labels", "annotations")]


def _override_errors(holder: dict[str, Any], path: str, target: str, under: str = "") -> Iterator[FieldError]:
    """A fragment is for one kind of object; it may set the topology constraint and nothing else."""
    fragment = holder.get("providerOverride")
    if not isinstance(fragment, dict):
        return
    at = f"{path}.providerOverride"
    if fragment.get("apiVersion") != _OVERRIDE_API:
        yield invalid(f"{at}.apiVersion", fragment.get("apiVersion"), f"must be {_OVERRIDE_API}")
    if fragment.get("target") and fragment["target"] != target:
        yield not_supported(f"{at}.target", fragment["target"], [target])
    value = fragment.get("value")
    for key in under.split(".") if under else ():
        others = sorted(set(value) - {key}) if isinstance(value, dict) else []
        if others:
            yield forbidden(f"{at}.value", f"only {under}.topologyConstraint may be set, found {others[0]}")
        value = part(value, key)
    others = sorted(set(value) - {"topologyConstraint"}) if isinstance(value, dict) else []
    if others:
        allowed = f"{under}.topologyConstraint" if under else "topologyConstraint"
        yield forbidden(f"{at}.value", f"only {allowed} may be set, found {others[0]}")


def _name_errors(obj: Object) -> Iterator[FieldError]:
    deployment = str(part(obj, "metadata").get("name") or "")
    components = [one for one in items(part(obj, "spec").get("components")) if isinstance(one, dict)]
    podcliqueset = generated_labels.podcliqueset(deployment, components)
    for index, component in enumerate(components):
        length, limit = len(podcliqueset) + generated_labels.used_by(component), generated_labels.POD_NAME_LIMIT
        if length <= limit:
            continue
        parts = "PCS name + component name"
        if is_group(component):
            parts = f'PCS name + PCSG name + longest PodClique name "{generated_labels.longest_clique(component)}"'
        name = component["name"]
        yield invalid(
            f"spec.components[{index}].name",
            name,
            f"combined resource name length {length} exceeds the {limit}-character pod-name limit "
            f'({parts}); shorten DynamoGraphDeployment name "{deployment}" or component name "{name}"',
        )


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
    yield from _duplicates(obj)
    if not asked:
        yield required(f"{GRAPH}.packDomain", "is required when no component topologyConstraint is set")
    for path, domain in asked:
        if not is_domain(domain):
            yield not_supported(path, domain, DOMAINS)
    yield from _broader(asked)
    yield from _absent(obj, asked, settings, lookup)


def _duplicates(obj: Object) -> Iterator[FieldError]:
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
        topology = find_topology(lookup, name)
    except Unreadable as error:
        yield invalid(path, name, f"failed to read ClusterTopology: {error}")
        return
    if topology is None:
        yield invalid(path, name, "references a ClusterTopology resource that was not found")
        return
    levels = [level.domain for level in topology.spec.levels]
    shown = " ".join(sorted(levels))
    for where, domain in asked:
        if is_domain(domain) and domain not in levels:
            yield invalid(where, domain, f'does not exist in {topology.KIND} "{name}"; available domains: [{shown}]')
