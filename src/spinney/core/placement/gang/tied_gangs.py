"""Gangs that must share the domain of another gang: the nodes that remain for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from spinney.api.placement.problem import Gang
from spinney.core.inventory.inventory import Inventory
from spinney.core.inventory.trees import NOWHERE
from spinney.core.placement.gang.gang_tree import GangTree, Invalid


class UnsatisfiedTie(Exception):
    """The other gang has no single domain to share, or a running member is outside it."""

    def __init__(self, reason: str, level: str) -> None:
        super().__init__(reason)
        self.level = level


class Members(Protocol):
    live: list[tuple[str, int]]
    planned: list[int]


def tied_slots(parts: GangTree, inventory: Inventory, placed_gangs: Mapping[str, Members]) -> list[int] | None:
    """The slots of the shared domain; None: the gang is not tied."""
    tie = parts.gang.tied_to
    if tie is None:
        return None
    tree = inventory.trees.get(parts.gang.root.topology or "")
    depth = tree.depth(tie.level) if tree is not None else None
    if tree is None or depth is None:
        raise Invalid(
            f"tiedTo: level {tie.level} is not a level of the gang's own topology {parts.gang.root.topology}",
            "",
            tie.level,
        )
    placed_gang = placed_gangs.get(tie.gang)
    if placed_gang is None:
        raise UnsatisfiedTie(f"tied to gang {tie.gang}, which is not known", tie.level)
    if not placed_gang.live:
        raise UnsatisfiedTie(f"tied to gang {tie.gang}, which is not placed", tie.level)
    domains = {tree.domain_of(depth)[slot] for slot in (*(slot for _, slot in placed_gang.live), *placed_gang.planned)}
    if len(domains) > 1 or NOWHERE in domains:
        raise UnsatisfiedTie(f"tied to gang {tie.gang}, which is not in one domain of level {tie.level}", tie.level)
    domain = domains.pop()
    for member in parts.gang.running:
        if tree.domain_of(depth)[inventory.seat(member.node, member.zone)] != domain:
            where = "/".join(tree.path(depth, domain))
            raise UnsatisfiedTie(
                f"tied to gang {tie.gang} in {where}, but {member.pods} runs on {member.node} outside it", tie.level
            )
    return list(tree.members(depth, domain))


def is_beside(gang: Gang, inventory: Inventory, placed_gangs: Mapping[str, Members], slots: Iterable[int]) -> bool:
    """Whether all given slots are in domains, at the level of the gang's tie, that have members of the other gang."""
    tie = gang.tied_to
    tree = inventory.trees.get(gang.root.topology or "")
    depth = tree.depth(tie.level) if tie is not None and tree is not None else None
    if tie is None or tree is None or depth is None:
        return tie is None
    placed_gang, domain_of = placed_gangs.get(tie.gang), tree.domain_of(depth)
    theirs = {domain_of[slot] for _, slot in placed_gang.live} if placed_gang is not None else set()
    return {domain_of[slot] for slot in slots} <= theirs - {NOWHERE}
