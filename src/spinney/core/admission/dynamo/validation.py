"""What a deployment has to fulfil by itself: names that fit, an image, what only one way of rendering can honour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import OMITTED, FieldError, forbidden, invalid, not_supported, required
from spinney.core.admission.decoding import items, part, text
from spinney.core.admission.dynamo.defaults import CLIQUE, GROVE, SET, provider_of, target_of
from spinney.core.admission.pod_fields import amount_errors, type_errors
from spinney.core.expansion.dynamo import names
from spinney.core.expansion.dynamo.roles import excess_pods, is_group

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
    podcliqueset = names.podcliqueset(deployment, components)
    for index, component in enumerate(components):
        length = len(podcliqueset) + names.used_by(component)
        if length <= names.POD_NAME_LIMIT:
            continue
        parts = "PCS name + component name"
        if is_group(component):
            parts = f'PCS name + PCSG name + longest PodClique name "{names.longest_clique(component)}"'
        name = component["name"]
        yield invalid(
            f"spec.components[{index}].name",
            name,
            f"combined resource name length {length} exceeds the {names.POD_NAME_LIMIT}-character pod-name limit "
            f'({parts}); shorten DynamoGraphDeployment name "{deployment}" or component name "{name}"',
        )
