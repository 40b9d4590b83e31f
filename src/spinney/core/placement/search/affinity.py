"""Affinity between the pods of a gang on the nodes of a search: what excludes each other, and what has to be near.

Anti-affinity becomes tokens that pods claim and refuse, on a node or in a domain. What asks for the presence of other
pods, or for even numbers, is a rule: it is judged domain by domain, as soon as nothing can be added to a domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spinney.core.placement.gang.gang_tree import Part
from spinney.core.placement.gang.pod_affinity import GangAffinity


@dataclass(frozen=True, slots=True)
class DomainClaim:
    """Anti-affinity to other pod sets by a label that several nodes share: what pods claim and refuse in a domain.

    `by_node`: the label value of each node that has one.
    """

    token: int
    refused: frozenset[int]
    by_node: Mapping[int, object]


FIRST_TOKEN = 2**40
"""Numbers from here on are no host ports: they stand for anti-affinity between the pod sets of a gang."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """How the pods of one set keep apart: `keys` from each other by labels, the rest from other pod sets as well.

    `claims` and `refused` are tokens that work like host ports, where every node has its own value of the label.
    """

    keys: tuple[str, ...] = ()
    claims: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    domain_claims: tuple[DomainClaim, ...] = ()
    needed: tuple[str, ...] = ()  # labels that a node must have
    ruled: bool = False


class Exclusions:
    """Turns the anti-affinity between the pod sets of a gang into tokens, label by label.

    Pod sets that all keep apart from each other and from themselves share one token per host, like a host port: then
    their pods are of one type for the search.
    """

    def __init__(
        self, affinity: GangAffinity, values: Mapping[str, Mapping[int, object]], homes: Sequence[int]
    ) -> None:
        self.affinity = affinity
        self.values = values
        hosts = len(set(homes))
        self.by_host = {
            key
            for key, by_node in values.items()
            if len(by_node) == len(homes)
            and len({(value, homes[node]) for node, value in by_node.items()}) == hosts
            and len(set(by_node.values())) == hosts
        }

    def of(self, leaf: Part) -> Exclusion:
        assert leaf.pods is not None
        own = self.affinity.own_keys(leaf.index)
        keys = [*dict.fromkeys([*leaf.pods.anti_affinity, *own])]
        claims: set[int] = set()
        refused: set[int] = set()
        domain_claims = []
        for number, key in enumerate(self.affinity.apart):
            others = self.affinity.others(leaf.index, key)
            if not others:
                continue
            if key not in self.by_host:
                tokens = frozenset([_token(number, other) for other in others])
                domain_claims.append(DomainClaim(_token(number, leaf.index), tokens, self.values[key]))
                continue
            together = others | {leaf.index}
            if all(self.affinity.kind(each) == self.affinity.kind(leaf.index) for each in others) and key in own:
                claims.add(_token(number, min(together)))
                refused.add(_token(number, min(together)))
                keys.remove(key)
                continue
            claims.add(_token(number, leaf.index))
            refused.update(_token(number, other) for other in others)
        groups = [one.key for one in self.affinity.together if leaf.index in one.leaves]
        ruled = [one.key for one in self.affinity.near if one.leaf == leaf.index]
        ruled += [one.key for one in self.affinity.spread if one.leaf == leaf.index]
        domain_claims += self._presence(leaf.index)
        return Exclusion(
            tuple(keys), frozenset(claims), frozenset(refused), tuple(domain_claims), (*groups, *ruled), bool(ruled)
        )

    def _presence(self, leaf: int) -> Iterator[DomainClaim]:
        """Tokens that refuse nothing: they tell in which domains there are pods that a rule is about."""
        for number, near in enumerate(self.affinity.near):
            if leaf == near.leaf or leaf in near.others:
                yield DomainClaim(presence_token(number, leaf), frozenset(), self.values[near.key])
        for number, spread in enumerate(self.affinity.spread):
            if leaf == spread.leaf:
                yield DomainClaim(presence_token(_SPREAD + number, leaf), frozenset(), self.values[spread.key])


_PRESENCE = 2**8
_SPREAD = 2**8


def presence_token(number: int, leaf: int) -> int:
    """The token of a pod set for a rule with this number."""
    return _token(_PRESENCE + number, leaf)


def _token(key: int, leaf: int) -> int:
    return FIRST_TOKEN + (key << 32) + leaf


@dataclass(frozen=True, slots=True)
class NearRule:
    """Pods of a set may only be in domains that hold a pod of one of the others."""

    leaf: int
    others: frozenset[int]
    mine: int  # the tokens that tell where pods are
    theirs: frozenset[int]
    by_node: Mapping[int, object]
    domains: frozenset[object] = frozenset()  # where such pods are anyway


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """`by_node`: the domain of each node that counts; `start`: members that run in each domain, of all domains."""

    leaf: int
    by_node: Mapping[int, object]
    start: Mapping[object, int]
    max_skew: int
    has_minimum: bool  # else there are too few domains, and the smallest number counts as zero

    def lowest(self, counts: Iterable[int]) -> int:
        return min(counts, default=0) if self.has_minimum else 0

    def most(self, pods: int) -> int:
        """An upper bound on the pods in a domain that gets new ones, for so many pods in all domains together."""
        domains = len(self.start)
        return (pods + self.max_skew * (domains - 1)) // domains if self.has_minimum else self.max_skew


class RuleState(NamedTuple):
    """What the nodes filled so far mean for the spread rules: pods in open domains, then extremes of closed ones."""

    counts: tuple[tuple[object, int], ...] = ()
    highest: int = 0
    lowest: int | None = None


class PatternRules:
    """Judges the rules while nodes are filled one after the other, for the pod sets of one packing.

    `batch_of`: the batch of each pod set that is packed here. A near rule whose other pod sets are still to be placed
    (`pending`) is not judged yet.
    """

    def __init__(
        self,
        near: Sequence[NearRule],
        spread: Sequence[SpreadRule],
        batch_of: Mapping[int, int],
        needs: Mapping[int, int],
        pending: frozenset[int],
        claimed: Mapping[tuple[int, object], int],
    ) -> None:
        self.near = [rule for rule in near if rule.leaf in batch_of and not rule.others & pending]
        self.spread = [rule for rule in spread if rule.leaf in batch_of]
        self.batches = [batch_of[rule.leaf] for rule in self.spread]
        self.caps = [rule.most(sum(rule.start.values()) + needs[rule.leaf]) for rule in self.spread]
        self.claimed = claimed
        self.closing: list[list[frozenset[object]]] = []

    def __bool__(self) -> bool:
        return bool(self.near or self.spread)

    @property
    def keys(self) -> list[Mapping[int, object]]:
        return [rule.by_node for rule in self.near] + [rule.by_node for rule in self.spread]

    def order(self, nodes: Sequence[int]) -> list[int]:
        """The nodes of a domain one after the other, broad domains outermost."""
        keys = sorted(self.keys, key=lambda by_node: len({by_node.get(node) for node in nodes}))
        return sorted(nodes, key=lambda node: [str(by_node.get(node)) for by_node in keys])

    def close(self, nodes: Sequence[int]) -> None:
        """Note which domains end at which position."""
        self.closing = [[frozenset[object]() for _ in self.keys] for _ in nodes]
        for at, by_node in enumerate(self.keys):
            last = {by_node[node]: position for position, node in enumerate(nodes) if node in by_node}
            for value, position in last.items():
                self.closing[position][at] |= {value}

    def start(self) -> tuple[RuleState, ...]:
        states = []
        for number, rule in enumerate(self.spread, len(self.near)):
            open_values = {value for ends in self.closing for value in ends[number]}
            outside = [count for value, count in rule.start.items() if value not in open_values]
            states.append(RuleState(lowest=min(outside) if outside else None))
        return tuple(states)

    def limit(self, states: tuple[RuleState, ...], batch: int, node: int, limit: int) -> int:
        """How many pods of a batch a node may get, as far as its domain counts."""
        for rule, own, cap, state in zip(self.spread, self.batches, self.caps, states, strict=True):
            if own != batch or node not in rule.by_node:
                continue
            value = rule.by_node[node]
            there = dict(state.counts).get(value, rule.start[value])
            lowest = 0 if not rule.has_minimum else state.lowest
            highest = cap if lowest is None else min(cap, lowest + rule.max_skew)
            limit = min(limit, max(0, highest - there))
        return limit

    def after(
        self, states: tuple[RuleState, ...], at: int, node: int, pattern: Sequence[int], present: frozenset[object]
    ) -> tuple[RuleState, ...] | None:
        """The states once a node is filled; None: a rule is broken in a domain that is complete."""
        for number, near in enumerate(self.near):
            if any(not self._has_company(near, value, present) for value in self.closing[at][number]):
                return None
        after = []
        for number, (rule, batch, state) in enumerate(zip(self.spread, self.batches, states, strict=True)):
            state = self._count(rule, state, node, pattern[batch])
            for value in self.closing[at][len(self.near) + number]:
                state = self._closed(rule, state, value)
            if not self._is_even(rule, state):
                return None
            after.append(state)
        return tuple(after)

    def _count(self, rule: SpreadRule, state: RuleState, node: int, count: int) -> RuleState:
        if not count or node not in rule.by_node:
            return state
        counts = dict(state.counts)
        value = rule.by_node[node]
        counts[value] = counts.get(value, rule.start[value]) + count
        return state._replace(counts=tuple(sorted(counts.items(), key=str)))

    def _closed(self, rule: SpreadRule, state: RuleState, value: object) -> RuleState:
        counts = dict(state.counts)
        count = counts.pop(value, None)
        total = rule.start[value] if count is None else count
        return RuleState(
            tuple(sorted(counts.items(), key=str)),
            state.highest if count is None else max(state.highest, count),
            total if state.lowest is None else min(state.lowest, total),
        )

    def _is_even(self, rule: SpreadRule, state: RuleState) -> bool:
        lowest = 0 if not rule.has_minimum else state.lowest
        return lowest is None or state.highest - lowest <= rule.max_skew

    def _has_company(self, rule: NearRule, value: object, present: frozenset[object]) -> bool:
        if (rule.mine, value) not in present or value in rule.domains:
            return True
        return any((token, value) in present or self.claimed.get((token, value), 0) > 0 for token in rule.theirs)

    def is_lawful(self, states: tuple[RuleState, ...], at: int, present: frozenset[object]) -> bool:
        """Whether all rules hold if nothing is placed from a position on."""
        for number, near in enumerate(self.near):
            rest = {value for ends in self.closing[at:] for value in ends[number]}
            if any(not self._has_company(near, value, present) for value in rest):
                return False
        for number, (rule, state) in enumerate(zip(self.spread, states, strict=True)):
            for value in {value for ends in self.closing[at:] for value in ends[len(self.near) + number]}:
                state = self._closed(rule, state, value)
            if not self._is_even(rule, state):
                return False
        return True

    def allows(self, placed: Mapping[int, Mapping[int, int]]) -> bool:
        """Whether all rules hold for a placement (by pod set, then node) of everything that is packed here."""
        for rule in self.near:
            here = {rule.by_node[node] for node in placed.get(rule.leaf, ())}
            theirs = {rule.by_node.get(node) for other in rule.others for node in placed.get(other, ())}
            if any(
                value not in theirs
                and value not in rule.domains
                and not any(self.claimed.get((token, value), 0) > 0 for token in rule.theirs)
                for value in here
            ):
                return False
        for spread in self.spread:
            counts = dict(spread.start)
            new = placed.get(spread.leaf, {})
            for node, count in new.items():
                counts[spread.by_node[node]] += count
            lowest = spread.lowest(counts.values())
            if any(counts[spread.by_node[node]] - lowest > spread.max_skew for node in new):
                return False
        return True
