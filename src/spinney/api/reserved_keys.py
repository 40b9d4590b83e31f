"""Which labels and annotations only roles of ours may write, on which kinds, and which role each.

The one table behind the webhook's rules, the ValidatingAdmissionPolicies and the documentation. Everything under the
prefix `spinney.dev/` is reserved but what users are told to set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgang import PodGang
from spinney.api.kinds.podgroup import PodGroup
from spinney.api.labels import (
    CONFIGURATION_HASH,
    CONSOLIDATE,
    DOMAIN,
    EPOCH,
    EXPLANATION,
    FENCED,
    KAI_SUBGROUP_NAME,
    MEMBERS,
    MIRRORED,
    NODE_KEYS,
    NODES,
    NUMA_ZONE,
    PLACEMENT_SCORE,
    PLAN,
    PLAN_SIGNATURE,
    POD_GROUP_NAME,
    RANK,
    RELEASED,
    SCALED_GANGS,
    SEGMENT,
    SIMULATION_PREFIX,
    SPINNEY_PREFIX,
    TIED_TO,
)
from spinney.api.roles.catalog import ROLES

FREE_KEYS = (CONFIGURATION_HASH,)
FREE_PREFIXES = (SIMULATION_PREFIX,)
"""Keys under our prefix that are not reserved."""

_SCHEDULER, _OPERATOR, _EITHER = ("scheduler",), ("operator",), ("operator", "scheduler")


@dataclass(frozen=True, slots=True)
class ReservedKeys:
    """Of one kind. `writers`: the roles that may write a key; `others`: those for reserved keys that are not named."""

    group: str
    resource: str
    others: tuple[str, ...]
    writers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def roles(self, key: str) -> tuple[str, ...]:
        return self.writers.get(key, self.others)


RESERVED: tuple[ReservedKeys, ...] = (
    ReservedKeys(
        PodGroup.GROUP,
        PodGroup.PLURAL,
        others=_SCHEDULER,
        writers={
            PLAN: _SCHEDULER,
            EPOCH: _SCHEDULER,
            PLAN_SIGNATURE: _SCHEDULER,
            FENCED: _SCHEDULER,
            EXPLANATION: _SCHEDULER,
            PLACEMENT_SCORE: _SCHEDULER,
            MEMBERS: _SCHEDULER,
            NODES: _SCHEDULER,
            CONSOLIDATE: _SCHEDULER,
            MIRRORED: _SCHEDULER,
            TIED_TO: _EITHER,
            SCALED_GANGS: _OPERATOR,
        },
    ),
    ReservedKeys(
        "",
        "pods",
        others=_SCHEDULER,
        writers={
            RANK: _SCHEDULER,
            DOMAIN: _SCHEDULER,
            SEGMENT: _SCHEDULER,
            NUMA_ZONE: _SCHEDULER,
            RELEASED: _SCHEDULER,
            NODE_KEYS: _OPERATOR,
        },
    ),
    ReservedKeys(
        PodGang.GROUP,
        PodGang.PLURAL,
        others=_OPERATOR,
        writers={TIED_TO: _OPERATOR, SCALED_GANGS: _OPERATOR, MIRRORED: _OPERATOR},
    ),
    ReservedKeys(PodClique.GROUP, PodClique.PLURAL, others=_OPERATOR, writers={MIRRORED: _OPERATOR}),
    ReservedKeys(PodCliqueScalingGroup.GROUP, PodCliqueScalingGroup.PLURAL, others=_OPERATOR),
)

SCHEDULER_POD_KEYS = frozenset({POD_GROUP_NAME, KAI_SUBGROUP_NAME, RANK, DOMAIN, SEGMENT, NUMA_ZONE, RELEASED})
"""What the scheduler writes on pods of others: which gang they are in, their places, and that a place was given up."""


def is_reserved(key: str) -> bool:
    """Whether only roles of ours may write a label or annotation."""
    return key.startswith(SPINNEY_PREFIX) and key not in FREE_KEYS and not key.startswith(FREE_PREFIXES)


def without_reserved(found: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations as users may set them."""
    return {key: value for key, value in found.items() if not is_reserved(key)}


_JUDGED_GROUPS = (PodClique.GROUP, PodGang.GROUP, PodGroup.GROUP)
"""The groups of kinds by whose status others decide: which gangs are placed, which topologies are in use."""


def status_writers() -> dict[tuple[str, str], tuple[str, ...]]:
    """Kinds whose status only roles of ours write, each with those roles."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for role, group, resource in _status_grants():
        found[group, resource] = (*found.get((group, resource), ()), role)
    return found


def _status_grants() -> Iterator[tuple[str, str, str]]:
    for role, rights in ROLES.items():
        for grant in rights.cluster:
            for resource in grant.resources:
                plural, _, subresource = resource.partition("/")
                if subresource == "status" and grant.group in _JUDGED_GROUPS and "patch" in grant.verbs:
                    yield role, grant.group, plural
