"""Grove with an operator that writes no PodGroups: a group for each PodGang, its pod groups are the sub-groups."""

from __future__ import annotations

from typing import TypeVar

from spinney.api.changes import Json
from spinney.api.kinds.podgroup import PodGroupTopologyConstraint, SubGroup
from spinney.api.labels import (
    KAI_TOPOLOGY,
    KAI_TOPOLOGY_PREFERRED,
    KAI_TOPOLOGY_REQUIRED,
    PODGANG,
    TOPOLOGY_NAME,
)
from spinney.core.grouping.group_shape import GroupShape, Lookups, minimum, podgroup_name
from spinney.core.grouping.owner_chain import InvalidFieldError, Owner, OwnerChain, annotation, label, whole
from spinney.core.grouping.topology import levels_of

T = TypeVar("T")

_MISSING = PodGroupTopologyConstraint()


def shape(chain: OwnerChain, lookups: Lookups) -> GroupShape:
    """The group of a Grove pod. Raises InvalidFieldError if it has no PodGang, or the PodGang does not list it."""
    gang = gang_of(chain)
    parts = _parts(gang, topology_named(gang), lookups)
    part = _part_of(chain, gang)
    return GroupShape(podgroup_name(gang.name, gang.uid), gang, max(minimum(parts), 1), parts, part)


def gang_of(chain: OwnerChain) -> Owner:
    if chain.gang is None:
        name = chain.pod.metadata.labels.get(PODGANG)
        raise InvalidFieldError(
            chain.pod.title, label(PODGANG), name, "the name of a PodGang in the namespace of the pod"
        )
    return chain.gang.under(chain.top)


def topology_named(gang: Owner) -> str:
    return gang.annotations.get(TOPOLOGY_NAME) or gang.annotations.get(KAI_TOPOLOGY, "")


def root_constraint(chain: OwnerChain, lookups: Lookups) -> PodGroupTopologyConstraint:
    """The constraint in the gang's spec; missing fields are taken from its annotations."""
    gang = gang_of(chain)
    topology = topology_named(gang)
    pack = _pack(gang, gang.part("spec"), "spec")
    required = pack.get("required") or gang.annotations.get(KAI_TOPOLOGY_REQUIRED, "")
    preferred = pack.get("preferred") or gang.annotations.get(KAI_TOPOLOGY_PREFERRED, "")
    return _constraint(gang, {"required": required, "preferred": preferred}, topology, lookups) or _MISSING


def _parts(gang: Owner, topology: str, lookups: Lookups) -> tuple[SubGroup, ...]:
    """Sub-groups: group configs first, then the pod groups, each below the first config that lists it."""
    groups = gang.items("spec", "podgroups")
    known = {str(group.get("name")) for group in groups}
    parents: dict[str, str] = {}
    parts: list[SubGroup] = []
    for index, config in enumerate(gang.items("spec", "topologyConstraintGroupConfigs")):
        path = f"spec.topologyConstraintGroupConfigs[{index}]"
        listed = [name for name in _listed(gang, config, "podGroupNames", path, str, "names") if name in known]
        if not listed:
            continue
        name = _name(gang, config, path)
        constraint = _constraint(gang, _pack(gang, config, path), topology, lookups)
        for member in listed:
            parents.setdefault(member, name)
        held = sum(1 for parent in parents.values() if parent == name)
        parts.append(SubGroup(name, min_sub_group=held, topology_constraint=constraint))
    for index, group in enumerate(groups):
        path = f"spec.podgroups[{index}]"
        name = _name(gang, group, path)
        least = whole(gang, group, "minReplicas", f"{path}.minReplicas")
        if not least:
            raise InvalidFieldError(gang, f"{path}.minReplicas", least, "a whole number of 1 or more")
        constraint = _constraint(gang, _pack(gang, group, path), topology, lookups)
        parts.append(SubGroup(name, least, parent=parents.get(name), topology_constraint=constraint))
    return tuple(parts)


def _part_of(chain: OwnerChain, gang: Owner) -> str:
    pod = chain.pod.metadata
    for index, group in enumerate(gang.items("spec", "podgroups")):
        path = f"spec.podgroups[{index}]"
        for number, reference in enumerate(_listed(gang, group, "podReferences", path, dict, "objects")):
            if reference.get("namespace", gang.namespace) != gang.namespace:
                path = f"{path}.podReferences[{number}].namespace"
                raise InvalidFieldError(gang, path, reference.get("namespace"), f"{gang.namespace}, the gang's own")
            if reference.get("name") == pod.name:
                return str(group["name"])
    raise InvalidFieldError(gang, "spec.podgroups[].podReferences", None, f"a reference to {chain.pod.title}")


def _listed(gang: Owner, part: Json, key: str, path: str, kind: type[T], word: str) -> list[T]:
    found = part.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
        raise InvalidFieldError(gang, f"{path}.{key}", found, f"a list of {word}")
    return found


def _name(gang: Owner, part: Json, path: str) -> str:
    name = part.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidFieldError(gang, f"{path}.name", name, "a name")
    return name


def _pack(gang: Owner, part: Json, path: str) -> Json:
    constraint = part.get("topologyConstraint") or {}
    pack = constraint.get("packConstraint") if isinstance(constraint, dict) else constraint
    if pack is not None and not isinstance(pack, dict):
        raise InvalidFieldError(gang, f"{path}.topologyConstraint.packConstraint", pack, "an object")
    return pack or {}


def _constraint(gang: Owner, pack: Json, topology: str, lookups: Lookups) -> PodGroupTopologyConstraint | None:
    """The constraint; None if it is missing or empty."""
    asked = {key: pack[key] for key in ("required", "preferred") if pack.get(key)}
    if not asked:
        return None
    levels = levels_of(topology, gang, annotation(TOPOLOGY_NAME), lookups)
    keys = {key: levels.key_of(gang, f"packConstraint.{key}", str(level)) for key, level in asked.items()}
    return PodGroupTopologyConstraint(topology, keys.get("required", ""), keys.get("preferred", ""))
