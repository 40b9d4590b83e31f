"""Whom a gang may take from, where it is not told by priorities: a tier for each gang, and which victims go together.

A rule only ever forbids: no superset of a forbidden set is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from spinney.api.placement.result import Victim
from spinney.core.placement.gang.running_gangs import RunningGang

IsAllowed = Callable[[Sequence[Victim]], bool]


def anything(_: Sequence[Victim]) -> bool:
    """Whatever victims there are may go together."""
    return True


@dataclass(frozen=True)
class VictimRules:
    """`tiers`: of the gangs that may lose pods, by name, lower ones first; of equal victims the one listed first goes.

    The search compares victims by priority and name, so it is given gangs that are named by their position and have
    the tier as priority.
    """

    tiers: Mapping[str, int]
    is_allowed: IsAllowed

    def candidates(self, running_gangs: Sequence[RunningGang]) -> list[RunningGang]:
        """Those that may lose pods, as the search sees them."""
        known = {one.gang.name: one for one in running_gangs if one.gang.name in self.tiers}
        return [
            replace(known[name], gang=msgspec.structs.replace(known[name].gang, name=alias, priority=self.tiers[name]))
            for alias, name in self._names.items()
            if name in known
        ]

    def kept(self, names: frozenset[str]) -> frozenset[str]:
        """These gangs as the search sees them."""
        return frozenset(alias for alias, name in self._names.items() if name in names)

    def named(self, victims: Sequence[Victim]) -> tuple[Victim, ...]:
        """The victims by the names of their gangs."""
        known = self._named
        return tuple([known.get(one) or self._name(one) for one in victims])

    def as_seen(self, victims: Sequence[Victim]) -> list[Victim]:
        """The opposite of `named`."""
        aliases = {name: alias for alias, name in self._names.items()}
        return [Victim(aliases[one.gang], one.pods, one.node, one.zone) for one in victims if one.gang in aliases]

    def allows(self, victims: Sequence[Victim]) -> bool:
        return self.is_allowed(self.named(victims))

    def _name(self, victim: Victim) -> Victim:
        found = Victim(self._names[victim.gang], victim.pods, victim.node, victim.zone)
        self._named[victim] = found
        return found

    @cached_property
    def _named(self) -> dict[Victim, Victim]:
        return {}

    @cached_property
    def _names(self) -> dict[str, str]:
        return {f"{position:08}": name for position, name in enumerate(self.tiers)}
