"""The exact price of a preemption: which victims a gang needs at least.

Price: highest victim priority, gangs evicted whole, pods. Names, the last tie, are not judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from placement_oracle.exact import Model
from placement_oracle.filters import ports_of
from placement_oracle.reading import Document, Gang, TreeNode, World, read
from placement_oracle.state import Member, State, state_after
from placement_oracle.values import hosts_below

Price = tuple[int, int, int]


def cheapest(problem: Document | World, gang_index: int, decided: Sequence[Document] = ()) -> Price | None:
    """The lowest price at which the gang fits, None where no lawful victims make it fit."""
    world = read(problem)
    gang, before = world.gangs[gang_index], state_after(world, decided)
    evictable = [other for other in world.gangs if may_evict(gang, other) and before.running[other.name]]
    for priority in sorted({other.priority for other in evictable}):
        chosen = [other for other in evictable if other.priority <= priority]
        found = _fewest(before, state_after(world, decided), gang, chosen)
        if found is not None:
            return priority, *found
    return None


def price_of(problem: Document | World, answers: Sequence[Document], gang_index: int) -> Price:
    """What the victims of an answer cost."""
    world = read(problem)
    before, victims = state_after(world, answers[:gang_index]), answers[gang_index]["victims"]
    names = {victim["gang"] for victim in victims}
    gangs = [gang for gang in world.gangs if gang.name in names]
    whole = sum(len(before.live(gang.name)) == sum(victim["gang"] == gang.name for victim in victims) for gang in gangs)
    return max(gang.priority for gang in gangs), whole, len(victims)


def may_evict(gang: Gang, other: Gang) -> bool:
    """Never the gang it is tied to: its domain would go with it."""
    tied = gang.tied_to is not None and gang.tied_to["gang"] == other.name
    return other.preemptible and other.priority < gang.priority and not tied


def _fewest(before: State, without: State, gang: Gang, chosen: list[Gang]) -> tuple[int, int] | None:
    """On a cluster without all of the chosen gangs, how few of their pods have to be gone?"""
    running = {other.name: list(before.running[other.name]) for other in chosen}
    for other in chosen:
        for member in running[other.name]:
            without.evict(other, member)
    model = Model(without, gang, releasing=True)
    stay: list[tuple[Gang, Member, cp_model.IntVar]] = []
    whole: list[cp_model.IntVar] = []
    for other in chosen:
        kept = [(other, member, model.cp.new_bool_var("")) for member in running[other.name]]
        gone = model.cp.new_bool_var("")
        _add_lawful(model.cp, other, kept, gone, before.placed[other.name])
        stay, whole = stay + kept, [*whole, gone]
    _add_staying(model, stay)
    pods = sum(1 - kept for _, _, kept in stay)
    model.cp.minimize(sum(whole) * (len(stay) + 1) + pods)
    if not model.solve():
        return None
    return model.solver.value(sum(whole)), model.solver.value(pods)


def _add_lawful(
    cp: cp_model.CpModel,
    gang: Gang,
    kept: list[tuple[Gang, Member, cp_model.IntVar]],
    gone: cp_model.IntVar,
    placed: list[Member],
) -> None:
    """A gang loses nobody, goes whole, or keeps its minimum."""
    untouched = cp.new_bool_var("")
    minimum = cp.new_bool_var("")
    for _, _, stays in kept:
        cp.add_implication(gone, ~stays)
        cp.add_implication(untouched, stays)
    if placed:
        cp.add(gone == 0)  # pods placed by an earlier decision are no victims
    cp.add_exactly_one(gone, untouched, minimum)
    _add_minimum(cp, gang.root, kept, placed, minimum)


def _add_minimum(
    cp: cp_model.CpModel,
    node: TreeNode,
    kept: list[tuple[Gang, Member, cp_model.IntVar]],
    placed: list[Member],
    met: cp_model.IntVar,
) -> None:
    if node.leaf:
        left = sum(stays for _, (path, _), stays in kept if path == node.path) + len(hosts_below(node, placed))
        cp.add(left >= node.min * met)
        return
    children = [cp.new_bool_var("") for _ in node.children]
    for child, met_child in zip(node.children, children, strict=True):
        _add_minimum(cp, child, kept, placed, met_child)
    cp.add(sum(children) >= node.least * met)


def _add_staying(model: Model, stay: list[tuple[Gang, Member, cp_model.IntVar]]) -> None:
    """Pods that stay keep their room and their ports."""
    charged = model.state.world.charged
    for name in sorted({each for _, (_, node), _ in stay for each in charged(node)}):
        here = [(other.leaf[path], kept) for other, (path, node), kept in stay if name in charged(node)]
        new = [(model.gang.leaf[path], count) for (path, node), count in model.count.items() if name in charged(node)]
        for resource in model.state.world.resources:
            asked = [leaf.request[resource] * count for leaf, count in new if leaf.request[resource]]
            if asked:
                held = sum(leaf.request[resource] * kept for leaf, kept in here)
                busy = model.cp.new_bool_var("")  # a node may be overfull as long as nothing is added
                for _, count in (each for each in new if each[0].request[resource]):
                    model.cp.add(count == 0).only_enforce_if(~busy)
                room = model.state.coming(name, resource)
                model.cp.add(sum(asked) + held <= room).only_enforce_if(busy)
        for port in {port for leaf, _ in here for port in ports_of(leaf)}:
            opening = [count for leaf, count in new if port in ports_of(leaf)]
            for leaf, kept in here:
                if opening and port in ports_of(leaf):
                    model.cp.add(sum(opening) + kept <= 1)
