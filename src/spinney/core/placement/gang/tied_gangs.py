"""A gang and gangs that share its domain, as one gang: what fits together is found by one search (G12).

Pure. Gangs that share a domain are tied to the same base gang, or are that base gang and those tied to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from spinney.api.placement.problem import AffinityTerm, Gang, Group, PodSet, Running

OWN = "gang"
"""Name of the part that is the gang itself."""

MOST_FOLLOWERS = 64
"""So many followers are looked at; a set that asks for more has them placed one by one."""


def later_followers(gangs: Sequence[Gang]) -> Iterator[tuple[Gang, list[Gang]]]:
    """Each gang with those after it that share its domain: tied to it, or to the same gang."""
    tied: dict[str, list[Gang]] = {}
    for gang in gangs:
        if gang.tied_to is not None:
            tied.setdefault(gang.tied_to.gang, []).append(gang)
    places = {gang.name: at for at, gang in enumerate(gangs)} if tied else {}
    for gang in gangs:
        mine = list(tied.get(gang.name, ()))
        if gang.tied_to is not None:
            mine += [each for each in tied[gang.tied_to.gang] if each.tied_to == gang.tied_to]
        yield gang, [each for each in mine if places[each.name] > places[gang.name]]


def by_kind(followers: Sequence[Gang]) -> list[list[Gang]]:
    """The followers as the search sees them, those that ask for the same side by side."""
    kinds: dict[object, list[Gang]] = {}
    for follower in followers:
        needed = msgspec.structs.replace(follower, root=_minimum_of(follower.root))
        own = needed.name if needed.running else ""
        kinds.setdefault((needed.root, needed.tied_to, own), []).append(needed)
    return list(kinds.values())


def selections(kinds: Sequence[Sequence[Gang]], most: int, least: int) -> Iterator[tuple[Gang, ...]]:
    """Subsets of the followers, largest first; of equal followers the first ones, of equal sizes earlier kinds."""
    for total in range(most, least - 1, -1):
        yield from _of_size(kinds, total)


def _of_size(kinds: Sequence[Sequence[Gang]], size: int) -> Iterator[tuple[Gang, ...]]:
    if not kinds:
        yield ()
        return
    first, others = kinds[0], kinds[1:]
    rest = sum(map(len, others))
    for count in range(min(size, len(first)), max(size - rest, 0) - 1, -1):
        for more in _of_size(others, size - count):
            yield (*first[:count], *more)


def together(gang: Gang, followers: Sequence[Gang]) -> Gang:
    """One gang of all of them, in one domain of the level that they share."""
    named = [(OWN, gang), *((str(number), follower) for number, follower in enumerate(followers))]
    tie = next((follower.tied_to for follower in followers if follower.tied_to is not None), None)
    assert tie is not None
    root = Group(
        "",
        groups=tuple([_within(one.root, f"{name}/", name) for name, one in named]),
        topology=followers[0].root.topology,
        required=tie.level if gang.tied_to is None else None,  # a tied gang has its domain already
    )
    running = tuple(
        [Running(f"{name}/{member.pods}", member.node, member.zone) for name, one in named for member in one.running]
    )
    return msgspec.structs.replace(gang, root=root, running=running, short=frozenset())


def _minimum_of(group: Group) -> Group:
    """The followers' part in the search: their minimum, without preferences."""
    return msgspec.structs.replace(
        group,
        groups=tuple([_minimum_of(each) for each in group.groups]),
        pods=tuple([msgspec.structs.replace(each, count=each.min, preferred=None) for each in group.pods]),
        preferred=None,
    )


def _within(group: Group, prefix: str, name: str) -> Group:
    """The group below another one: pod sets that affinity terms name have longer paths there."""
    return msgspec.structs.replace(
        group,
        name=name,
        groups=tuple([_within(each, prefix, each.name) for each in group.groups]),
        pods=tuple([_renamed(each, prefix) for each in group.pods]),
    )


def _renamed(pods: PodSet, prefix: str) -> PodSet:
    if not (pods.pod_affinity or pods.pod_anti_affinity or pods.affinity_preferences):
        return pods
    return msgspec.structs.replace(
        pods,
        pod_affinity=_terms(pods.pod_affinity, prefix),
        pod_anti_affinity=_terms(pods.pod_anti_affinity, prefix),
        affinity_preferences=(),
    )


def _terms(terms: tuple[AffinityTerm, ...], prefix: str) -> tuple[AffinityTerm, ...]:
    return tuple([msgspec.structs.replace(each, pods=tuple([prefix + path for path in each.pods])) for each in terms])
