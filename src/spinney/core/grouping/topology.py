"""Topology annotations of a workload (K1): a level is a node label, or a short name that a ClusterTopology defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kube_apimachinery.quantity import read_number
from spinney.api.kinds.podgroup import PodGroupTopologyConstraint
from spinney.api.labels import (
    KAI_SEGMENT_PREFERRED,
    KAI_SEGMENT_REQUIRED,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
    KAI_TOPOLOGY_PREFERRED,
    KAI_TOPOLOGY_REQUIRED,
)
from spinney.core.grouping.group_shape import Lookups
from spinney.core.grouping.owner_chain import InvalidFieldError, annotation
from spinney.core.suggestions import did_you_mean

PLACES = (KAI_TOPOLOGY_REQUIRED, KAI_TOPOLOGY_PREFERRED)
BLOCKS = (KAI_SEGMENT_REQUIRED, KAI_SEGMENT_PREFERRED)
_PLACEMENT = (KAI_TOPOLOGY, *PLACES)
_SEGMENTS = (KAI_SEGMENT_SIZE, *BLOCKS)


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of one topology."""

    topology: str
    keys: Sequence[str]
    domains: Mapping[str, str]

    def key_of(self, subject: object, field: str, level: str) -> str:
        """The node label that a level stands for."""
        if level in self.keys:
            return level
        if level in self.domains:
            return self.domains[level]
        known = [*self.keys, *(key for key in self.domains.values() if key not in self.keys), *self.domains]
        if level in known:
            return level
        wanted = f"a level of topology {self.topology}: {', '.join(known)}{did_you_mean(level, known)}"
        raise InvalidFieldError(subject, field, level, wanted)


def levels_of(topology: str, subject: object, field: str, lookups: Lookups) -> Levels:
    """The levels of a topology. Raises InvalidFieldError if the topology is not named or does not exist."""
    if not topology:
        raise InvalidFieldError(subject, field, None, "the name of a Topology, for a level of it is asked for")
    keys = lookups.topology_keys(topology)
    if keys is None:
        near = did_you_mean(topology, lookups.topologies())
        wanted = f"the name of a Topology (Requested topology {topology} does not exist{near})"
        raise InvalidFieldError(subject, field, topology, wanted)
    return Levels(topology, keys, lookups.domains(topology))


def asks_for_topology(annotations: Mapping[str, str]) -> bool:
    return any(annotations.get(key) for key in (*_PLACEMENT, *_SEGMENTS))


def places(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The annotations that name a level for the whole group."""
    return tuple(key for key in PLACES if annotations.get(key))


def templates(spec: object) -> Iterator[Mapping[str, str]]:
    """The annotations of all pod templates in an owner's spec."""
    left = [spec]
    while left:
        part = left.pop()
        if isinstance(part, list):
            left.extend(part)
        elif isinstance(part, dict):
            left.extend(part.values())
            metadata = part.get("metadata")
            annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
            if isinstance(annotations, dict):
                yield {key: value for key, value in annotations.items() if isinstance(value, str)}


def constraint_of(
    annotations: Mapping[str, str],
    subject: object,
    lookups: Lookups,
    above: Mapping[str, str] | None = None,
    below: Iterable[str] = (),
) -> PodGroupTopologyConstraint:
    """The constraint that the annotations request. Raises InvalidFieldError.

    The topology may be named in annotations `above`, and levels in annotations `below`.
    """
    asked = {key: annotations[key] for key in PLACES if annotations.get(key)}
    named = annotations.get(KAI_TOPOLOGY, "")
    if not asked:
        if named and not any(annotations.get(key) for key in _SEGMENTS) and not any(below):
            wanted = f"a level of topology {named} here or in {KAI_TOPOLOGY_PREFERRED}"
            raise InvalidFieldError(subject, annotation(KAI_TOPOLOGY_REQUIRED), None, wanted)
        return PodGroupTopologyConstraint()
    levels = levels_of(named or (above or {}).get(KAI_TOPOLOGY, ""), subject, annotation(KAI_TOPOLOGY), lookups)
    keys = {key: levels.key_of(subject, annotation(key), level) for key, level in asked.items()}
    return PodGroupTopologyConstraint(
        levels.topology, keys.get(KAI_TOPOLOGY_REQUIRED, ""), keys.get(KAI_TOPOLOGY_PREFERRED, "")
    )


def segment_annotations(owner: Mapping[str, str], spec: object) -> dict[str, str]:
    """The segment and topology annotations of an owner or its templates; the owner's own take precedence."""
    sources = [owner, *templates(spec)]
    asked = {key: next((one[key] for one in sources if one.get(key)), "") for key in (KAI_TOPOLOGY, *_SEGMENTS)}
    return {key: value for key, value in asked.items() if value} if any(asked[key] for key in BLOCKS) else {}


def segments_of(
    annotations: Mapping[str, str], subject: object, lookups: Lookups, above: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Segment annotations with levels as node labels (K13); the size may be in `above`. Raises InvalidFieldError."""
    asked = {key: annotations[key] for key in _SEGMENTS if annotations.get(key)}
    if not asked:
        return {}
    size = asked.pop(KAI_SEGMENT_SIZE, None) or (above or {}).get(KAI_SEGMENT_SIZE)
    if size is None or not read_number(size):
        raise InvalidFieldError(subject, annotation(KAI_SEGMENT_SIZE), size, "a whole number from 1 to 999999999")
    if not asked:
        wanted = f"a level here or in {KAI_SEGMENT_PREFERRED}, for segments are asked for"
        raise InvalidFieldError(subject, annotation(KAI_SEGMENT_REQUIRED), None, wanted)
    found = {KAI_SEGMENT_SIZE: size}
    named = annotations.get(KAI_TOPOLOGY) or (above or {}).get(KAI_TOPOLOGY, "")
    levels = levels_of(named, subject, annotation(KAI_TOPOLOGY), lookups)
    return found | {key: levels.key_of(subject, annotation(key), level) for key, level in asked.items()}


def doubts(subject: object, constraint: PodGroupTopologyConstraint, lookups: Lookups) -> tuple[str, ...]:
    """Warnings about a valid constraint that cannot be intended."""
    keys = list(lookups.topology_keys(constraint.topology) or ())
    required, preferred = constraint.required_topology_level, constraint.preferred_topology_level
    if required in keys and preferred in keys and keys.index(preferred) < keys.index(required):
        return (f"{subject}: the preferred level {preferred} is broader than the required level {required}",)
    return ()
