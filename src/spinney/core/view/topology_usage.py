"""Which sets use which topology (S2): a row for each set, as it refers to a topology and whether that has an effect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError
from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.meta import condition
from spinney.core.admission.decoding import part, read, text
from spinney.core.expansion.podcliqueset.topology_resolution import TOPOLOGY_LEVELS_UNAVAILABLE
from spinney.core.topology_constraints import constrained, reference

IMPLICIT = f"{DEFAULT_TOPOLOGY} (default)"
"""What stands for the default topology, whatever its name is in this cluster."""


@dataclass(frozen=True, slots=True)
class TopologyUse:
    """One set: the topology it refers to, and whether topology applies to it."""

    topology: str
    podcliqueset: str  # namespace/name
    applies: bool
    why: str = ""  # why not, or why not in full

    def to_json(self) -> dict[str, Any]:
        shown = {"topology": self.topology, "podCliqueSet": self.podcliqueset, "applies": self.applies}
        return {**shown, "why": self.why} if self.why else shown


def topology_uses(sets: Iterable[Object]) -> list[TopologyUse]:
    """In the order of topology and set, byte by byte."""
    return sorted(map(topology_use_of, sets), key=lambda one: f"{one.topology}\t{one.podcliqueset}".encode())


def topology_use_of(obj: Object) -> TopologyUse:
    """A set that cannot be read has a row all the same: what is missing in a list is taken for unused."""
    metadata = part(obj, "metadata")
    title = f"{text(metadata.get('namespace'))}/{text(metadata.get('name'))}"
    named = text(part(obj, "spec", "template").get("clusterTopologyName"))
    podcliqueset = read(obj, PodCliqueSet)
    if isinstance(podcliqueset, FieldError):
        return TopologyUse(named or IMPLICIT, title, False, f"cannot be read: {podcliqueset}")
    return TopologyUse(reference(podcliqueset)[1] or IMPLICIT, title, *_applies(podcliqueset))


def _applies(podcliqueset: PodCliqueSet) -> tuple[bool, str]:
    """By the constraints of the set, and by what the operator has last said about their topology (S1)."""
    if not constrained(podcliqueset):
        return False, "no topologyConstraint"
    unavailable = condition(podcliqueset.status.conditions, TOPOLOGY_LEVELS_UNAVAILABLE)
    if unavailable is None or unavailable.status == "False":
        return True, ""
    return unavailable.status == "True", unavailable.message
