"""Topology of a deployment in the words of the generated set (D6, D11): what the user set, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from spinney.api.changes import Json
from spinney.core.expansion.dynamo.roles import is_group, roles_of

GROVE_API = "grove.io/v1alpha1"


class BadOverride(ValueError):
    """A fragment that cannot be laid over the set."""


def is_constrained(deployment: Json) -> bool:
    """Whether topology applies at all, by the typed fields or by a fragment."""
    spec = deployment["spec"]
    if spec.get("topologyConstraint") or any(one.get("topologyConstraint") for one in spec.get("components", ())):
        return True
    return any("topologyConstraint" in _fragment_of(fragment, path) for path, fragment in overrides(deployment))


def name_of(deployment: Json) -> str:
    return str((deployment["spec"].get("topologyConstraint") or {}).get("clusterTopologyName") or "")


def constraint_of(part: Json) -> Json | None:
    """Of a deployment's spec or of a component."""
    domain = (part.get("topologyConstraint") or {}).get("packDomain")
    return {"packDomain": domain} if domain else None


def overrides(deployment: Json) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Fragments of the user from the root to the leaves, each with the place in the template that it goes to."""
    spec = deployment["spec"]
    if fragment := spec.get("providerOverride"):
        yield ("spec", "template"), fragment
    for component in spec.get("components", ()):
        name = component["name"].lower()
        group = is_group(component)
        if fragment := component.get("providerOverride"):
            yield ("podCliqueScalingGroups" if group else "cliques", name), fragment
        multinode = component.get("multinode") or {}
        for kind in ("leader", "worker"):
            fragment = (multinode.get(kind) or {}).get("providerOverride")
            clique = next((role.clique for role in roles_of(component) if role.kind == kind), "")
            if fragment and clique:
                yield ("cliques", clique), fragment


def lay_over(template: Json, deployment: Json) -> None:
    """Copy the topology of each fragment as it is; it replaces what was generated."""
    for path, fragment in overrides(deployment):
        found = _fragment_of(fragment, path)
        if "topologyConstraint" not in found:
            continue
        destination = template if path == ("spec", "template") else _entry(template, *path)
        destination["topologyConstraint"] = found["topologyConstraint"]


def _fragment_of(fragment: Json, path: tuple[str, ...]) -> Json:
    value = fragment.get("value") or {}
    if path == ("spec", "template"):
        value = ((value.get("spec") or {}).get("template")) or {}
    return dict(value)


def _entry(template: Json, kind: str, name: str) -> Json:
    for entry in template.get(kind, ()):
        if entry["name"] == name:
            found: Json = entry
            return found
    raise BadOverride(f'generated destination spec.template.{kind}["{name}"] was not found')
