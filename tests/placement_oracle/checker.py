"""Is an answer lawful, and is everything it says about itself true?

Judges finished answers; says nothing about better ones (see `exact` and `judging`), except that victims must be needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from placement_oracle.between import broken
from placement_oracle.disruption import unlawful_moves, unlawful_victims
from placement_oracle.reading import Document, Gang, TreeNode, World, read
from placement_oracle.rules import half_placed, misplaced, satisfied
from placement_oracle.state import Member, State, Untied, common_path, state_after, tied_domain
from placement_oracle.validity import mistakes
from placement_oracle.values import hosts_below, score_of

OUTCOMES = {"placed", "infeasible", "exhausted", "invalid"}


def violations(problem: Document | World, result: Document) -> list[str]:
    """Every broken rule and every false statement, as sentences; empty for a lawful answer."""
    world = read(problem)
    answers = result.get("gangs") or []
    if result.get("version") != 1:
        return [f"result has version {result.get('version')!r}"]
    if [answer.get("name") for answer in answers] != [gang.name for gang in world.gangs]:
        return ["result does not answer the gangs of the problem in their order"]
    found: list[str] = []
    for number, (gang, answer) in enumerate(zip(world.gangs, answers, strict=True)):
        wrong = list(_unreadable(world, gang, answer)) or list(_wrong(world, gang, answers, number))
        found += [f"{gang.name}: {each}" for each in wrong]
        if wrong:
            break  # what comes after stands on a broken state
    return found


def missed_extras(problem: Document | World, result: Document) -> list[str]:
    """Pods above the minimum that still fit beside the answer as it is."""
    world = read(problem)
    state, found = State(world), []
    for gang, answer in zip(world.gangs, result["gangs"], strict=True):
        state.settle(gang, answer)
        if answer["outcome"] == "placed" and (world.options.get("extras") or "place") == "place":
            found += [f"{gang.name}: {each}" for each in _one_more(state, gang, bool(answer["waits"]))]
    return found


def _unreadable(world: World, gang: Gang, answer: Document) -> Iterator[str]:
    if answer.get("outcome") not in OUTCOMES:
        yield f"outcome {answer.get('outcome')!r}"
    for placement in answer.get("placements") or []:
        if placement.get("pods") not in gang.leaf:
            yield f"unknown pod set {placement.get('pods')!r}"
        if placement.get("node") not in world.nodes:
            yield f"unknown node {placement.get('node')!r}"
        elif placement.get("zone") != world.where(world.seat(placement)).get("zone"):
            yield f"unknown zone {placement.get('zone')!r} of node {placement['node']!r}"


def _wrong(world: World, gang: Gang, answers: list[Document], number: int) -> Iterator[str]:
    answer, known = answers[number], mistakes(world, gang)
    if bool(known) != (answer["outcome"] == "invalid"):
        yield f"outcome {answer['outcome']}, mistakes: {known}"
        return
    if answer["outcome"] != "placed":
        yield from _not_silent(answer)
        return
    before = state_after(world, answers[:number])
    yield from unlawful_victims(world, answers, number)
    yield from unlawful_moves(world, answers, number)
    state = state_after(world, answers[:number])
    try:
        state.make_way(answer)
    except (ValueError, AssertionError):
        yield "evicts or moves a pod that is not running"
        return
    new = _new_members(world, answer)
    yield from _indices(gang, answer)
    yield from _counts(gang, state, new)
    if new:
        yield from misplaced(state, gang, new, waiting=bool(answer.get("waits")))
    yield from half_placed(gang, state.live(gang.name), new)
    if world.options.get("extras") == "skip":
        yield from _not_minimal(world, gang, state.live(gang.name), new)
    yield from _waits(before, gang, answer, new)
    yield from _statements(world, gang, answer, state.live(gang.name) + new)


def _not_silent(answer: Document) -> Iterator[str]:
    reason = (answer.get("explanation") or {}).get("reason")
    if not isinstance(reason, str) or not reason.strip():
        yield f"outcome {answer['outcome']} without a reason"
    for name in ("placements", "victims", "moves"):
        if answer.get(name):
            yield f"outcome {answer['outcome']} with {name}"


def _new_members(world: World, answer: Document) -> list[Member]:
    return [(placement["pods"], world.seat(placement)) for placement in answer.get("placements") or []]


def _indices(gang: Gang, answer: Document) -> Iterator[str]:
    for path in gang.leaf:
        given = sorted(each["index"] for each in answer.get("placements") or [] if each["pods"] == path)
        if given != list(range(len(given))):
            yield f"{path}: indices {given}"


def _counts(gang: Gang, state: State, new: list[Member]) -> Iterator[str]:
    live = Counter(path for path, _ in state.live(gang.name) + new)
    for path, leaf in gang.leaf.items():
        if live[path] > leaf.count and any(path == other for other, _ in new):
            yield f"{path}: {live[path]} pods, count is {leaf.count}"


def _left_over(gang: Gang, state: State) -> Iterator[TreeNode]:
    live = Counter(path for path, _ in state.live(gang.name))
    return (leaf for path, leaf in gang.leaf.items() if live[path] < leaf.count)


def _not_minimal(world: World, gang: Gang, live: list[Member], new: list[Member]) -> Iterator[str]:
    """With `extras: skip` no pod and no child is placed that the minimum does not need.

    A child beyond `minGroups` is needed where pods outside it have to be near to its pods, and to nobody else there.
    """
    for node in gang.root.walk():
        getting = [child for child in node.children if hosts_below(child, new)]
        spare = sum(satisfied(child, live + new) for child in node.children) - node.least
        for some in (each for size in range(1, spare + 1) for each in combinations(getting, size)):
            rest = [member for member in new if not any(hosts_below(child, [member]) for child in some)]
            if not list(broken(world, gang, live, rest)):
                yield f"{node.path!r}: an optional child is placed although extras are skipped"
                break
    for path, leaf in gang.leaf.items():
        fresh = sum(path == other for other, _ in new)
        if fresh and fresh + sum(path == other for other, _ in live) > leaf.min:
            yield f"{path}: an extra pod is placed although extras are skipped"


def _waits(before: State, gang: Gang, answer: Document, new: list[Member]) -> Iterator[str]:
    disturbs = bool(answer.get("victims") or answer.get("moves"))
    if disturbs and not answer.get("waits"):
        yield "has victims or moves and does not wait"
    if answer.get("waits") and not disturbs and not list(misplaced(before, gang, new, waiting=False, narrow=True)):
        yield "waits, but its placement fits on idle room"


def _statements(world: World, gang: Gang, answer: Document, members: list[Member]) -> Iterator[str]:
    expected, given = score_of(world, gang, members), answer.get("score")
    if not isinstance(given, int | float) or abs(given - expected) > 1e-6:
        yield f"score {given}, recomputed {expected}"
    if not isinstance(answer.get("proved"), bool) or not isinstance(answer.get("waits"), bool):
        yield "proved and waits are not both true or false"
    told = sorted((each["group"], each["level"], tuple(each["path"])) for each in answer.get("domains") or [])
    true = sorted(domains_of(world, gang, members))
    if told != true:
        yield f"domains {told}, recomputed {true}"


def domains_of(world: World, gang: Gang, members: list[Member]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Group, level and path of every domain an answer has to name."""
    for node in gang.root.walk():
        asked = [world.depth(node, level) for level in (node.required, node.preferred) if level is not None]
        hosts = hosts_below(node, members)
        if asked and hosts:
            assert node.topology is not None
            path = common_path(world.path(node.topology, host) for host in hosts)[: max(asked)]
            if path:
                yield node.path, world.topologies[node.topology][len(path) - 1], path


def _one_more(state: State, gang: Gang, waiting: bool) -> Iterator[str]:
    live = state.live(gang.name)
    try:
        tied_domain(state, gang)
    except Untied:
        return
    placed = Counter(path for path, _ in live)
    for leaf in _left_over(gang, state):
        for name in state.world.nodes:
            new = [(leaf.path, name)] * max(1, leaf.min - placed[leaf.path])
            if not list(misplaced(state, gang, new, waiting=waiting, narrow=True)) and not list(
                half_placed(gang, live, new)
            ):
                yield f"{len(new)} more of {leaf.path} on node {name}"
