"""Reviews the assignments of a recorded plan against the current state: allowed nodes, and required domains.

Reports what is wrong and decides nothing. Free capacity is not checked: that is done when it is reserved.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

import msgspec

from spinney.api.placement.problem import ANY_NODE, Gang, Group, NodeFilter, PodSet
from spinney.core.inventory.filters import why_not
from spinney.core.inventory.inventory import Inventory
from spinney.core.scheduling.plan import Assignment

Domain = tuple[str, ...]
_Part = tuple[str, str | None, str | None]
"""A part of the gang: path prefix of what is below it, topology, and required level."""
_Claim = tuple[str, str, str]
"""What only one pod can have: ("", node, host port), or (path of a pod set, node label, value)."""


def misplaced(
    gang: Gang,
    members: Mapping[str, str],
    filters: Mapping[str, NodeFilter],
    assignments: Sequence[Assignment],
    inventory: Inventory,
    base: Gang | None = None,
) -> dict[str, str]:
    """Why assignments are not valid, by uid. `members`: pod set of each pod; `filters`: its node filter; both by uid.

    `base`: the gang that it is tied to. Domains are checked for pods whose part of the gang is known.
    """
    reasons = {seat.uid: _excluded(filters.get(seat.uid, ANY_NODE), seat, inventory) for seat in assignments}
    found = {seat.uid: f"node {seat.node}: {reasons[seat.uid]}" for seat in assignments if reasons[seat.uid]}
    paths = {seat.uid: members[seat.uid] for seat in assignments if seat.uid in members and seat.uid not in found}
    placed = [seat for seat in assignments if seat.uid in paths]
    for part in _parts(gang.root, "", None):
        found |= _outside(part, gang, [seat for seat in placed if _is_in(paths[seat.uid], part)], inventory)
    return found | _untied(gang, base, placed, inventory)


def crowded(
    members: Mapping[str, str],
    sets: Mapping[str, PodSet],
    assignments: Sequence[Assignment],
    inventory: Inventory,
    leaving: Container[str] = (),
) -> dict[str, str]:
    """Assignments, by uid, that conflict with each other or with a pod that is not a victim (ports, anti-affinity; K8).

    Of two that conflict the first one stays. `members`: paths of pod sets by uid; `sets`: pod sets by path.
    """
    own = {seat.uid for seat in assignments}
    placed = [seat for seat in assignments if members.get(seat.uid) in sets and inventory.find(seat.node) is not None]
    taken: set[_Claim] = set()
    for node in {seat.node for seat in placed}:
        stay = [uid for uid in inventory.pods_on(node) if uid not in own and uid not in leaving]
        taken |= {
            ("", node, str(port)) for uid in stay if (pod := inventory.pod(uid)) is not None for port in pod.ports
        }
    found = {}
    for seat in placed:
        claims = _claims(members[seat.uid], sets[members[seat.uid]], seat, inventory)
        if claims & taken:
            found[seat.uid] = f"node {seat.node}: pod anti-affinity or a host port that is in use"
        taken |= claims
    return found


def _claims(path: str, pods: PodSet, seat: Assignment, inventory: Inventory) -> set[_Claim]:
    """Host ports, and domains that no other pod of the set may be in."""
    labels = inventory.node(inventory.slot(seat.node)).labels
    domains = {(path, key, labels[key]) for key in pods.anti_affinity if key in labels}
    return domains | {("", seat.node, str(port)) for port in pods.host_ports}


def _excluded(wanted: NodeFilter, seat: Assignment, inventory: Inventory) -> str:
    if inventory.find(seat.node) is None:
        return "is not there"
    node = inventory.node(inventory.seat(seat.node, seat.zone))
    return why_not(wanted, msgspec.structs.replace(node, zones=())) or ""


def _parts(group: Group | PodSet, prefix: str, inherited: str | None) -> Iterator[_Part]:
    """The root, groups and pod sets that require a level."""
    topology = group.topology or inherited
    if group.required:
        yield prefix, topology, group.required
    if isinstance(group, Group):
        for kid in group.groups:
            yield from _parts(kid, f"{prefix}{kid.name}/", topology)
        for pods in group.pods:
            yield from _parts(pods, prefix + pods.name, topology)


def _is_in(path: str, part: _Part) -> bool:
    prefix = part[0]
    return path.startswith(prefix) if not prefix or prefix.endswith("/") else path == prefix


def _outside(part: _Part, gang: Gang, assignments: Sequence[Assignment], inventory: Inventory) -> dict[str, str]:
    """Assignments outside the domain of the running members; if none runs, all of them if they span several domains."""
    _, topology, level = part
    theirs = {_domain(inventory, topology, level, one.node, one.zone) for one in gang.running if _is_in(one.pods, part)}
    mine = {seat.uid: _domain(inventory, topology, level, seat.node, seat.zone) for seat in assignments}
    held = theirs - {None}
    allowed = held or (set(mine.values()) if len(set(mine.values())) == 1 else set())
    return {
        uid: f"required level {level}: not in one domain with the others"
        for uid, domain in mine.items()
        if domain is None or domain not in allowed
    }


def _untied(gang: Gang, base: Gang | None, assignments: Sequence[Assignment], inventory: Inventory) -> dict[str, str]:
    if base is None or gang.tied_to is None:
        return {}
    topology, level = base.root.topology or gang.root.topology, gang.tied_to.level
    theirs = {_domain(inventory, topology, level, one.node, one.zone) for one in base.running} - {None}
    if not theirs:
        return {}
    return {
        seat.uid: f"tied to {base.name} at {level}: in another domain"
        for seat in assignments
        if _domain(inventory, topology, level, seat.node, seat.zone) not in theirs
    }


def _domain(inventory: Inventory, topology: str | None, level: str | None, node: str, zone: str) -> Domain | None:
    """None: the node is in no domain of that level."""
    tree = inventory.tree(topology) if topology else None
    if tree is None or level not in tree.levels or inventory.find(node) is None:
        return None
    path = tree.locate(inventory.node(inventory.seat(node, zone)).labels)
    depth = list(tree.levels).index(level) + 1
    return tuple(path[:depth]) if len(path) >= depth else None
