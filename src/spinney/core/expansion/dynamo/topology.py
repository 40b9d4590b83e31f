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


def respell(template: Json, live: Json) -> None:
    """Constraints of a set that exists keep the spelling they have where they mean the same: they cannot be changed.

    Another operator may have made the set, in upstream's newer words (P10).
    """
    if _named_in(template) == _named_in(live) and "clusterTopologyName" not in live:
        template.pop("clusterTopologyName", None)
    pairs = [(template, live)]
    for kind in ("cliques", "podCliqueScalingGroups"):
        before = {entry["name"]: entry for entry in live.get(kind) or ()}
        pairs += [(entry, before[entry["name"]]) for entry in template.get(kind, ()) if entry["name"] in before]
    for wanted, known in pairs:
        constraint = known.get("topologyConstraint")
        if constraint and _meaning(wanted) == _meaning(known):
            wanted["topologyConstraint"] = constraint


def _named_in(template: Json) -> str:
    """The topology that a template names, in either spelling."""
    holders = (template, *(template.get("cliques") or ()), *(template.get("podCliqueScalingGroups") or ()))
    constraints = [one.get("topologyConstraint") for one in holders]
    spelled = [one.get("topologyName") for one in constraints if isinstance(one, dict)]
    return next((name for name in (template.get("clusterTopologyName"), *spelled) if name), "")


def _meaning(holder: Json) -> tuple[str, str]:
    """What is required and what is preferred."""
    constraint = holder.get("topologyConstraint")
    if not isinstance(constraint, dict):
        return "", ""
    pack = constraint.get("pack") or {}
    return constraint.get("packDomain") or pack.get("required") or "", pack.get("preferred") or ""


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
