"""Which sets use which topology (S2): a row for each set, as it refers to a topology and whether that has an effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError
from spinney.api.generated_names import DEFAULT_TOPOLOGY
from spinney.api.kinds.podcliqueset import PodCliqueSet
from spinney.api.meta import condition
from spinney.cli.render.columns import columns, plain
from spinney.core.admission.decoding import part, read, text
from spinney.core.expansion.podcliqueset.topology_resolution import TOPOLOGY_LEVELS_UNAVAILABLE
from spinney.core.topology_constraints import constrained, reference
from spinney.drive.client.api import ApiClient, Selection
from spinney.drive.client.errors import ConfigError, NotFound
from spinney.drive.client.paths import ResourcePath

IMPLICIT = f"{DEFAULT_TOPOLOGY} (default)"
"""What stands for the default topology, whatever its name is in this cluster."""
_SETS = ResourcePath(PodCliqueSet.GROUP, PodCliqueSet.VERSION, PodCliqueSet.PLURAL)
_HEAD = ("TOPOLOGY", "PODCLIQUESET", "APPLIES")


@dataclass(frozen=True, slots=True)
class Use:
    """One set: the topology it refers to, and whether topology applies to it."""

    topology: str
    podcliqueset: str  # namespace/name
    applies: bool
    why: str = ""  # why not, or why not in full

    def to_json(self) -> dict[str, Any]:
        shown = {"topology": self.topology, "podCliqueSet": self.podcliqueset, "applies": self.applies}
        return {**shown, "why": self.why} if self.why else shown


async def read_usage(client: ApiClient) -> list[Use]:
    try:
        listing = await client.list(Selection(_SETS))
    except NotFound:
        name = f"{PodCliqueSet.PLURAL}.{PodCliqueSet.GROUP}"
        raise ConfigError(f"the cluster does not serve {name}: apply `spinney manifests crds` first") from None
    return uses(listing.items)


def uses(sets: Iterable[Object]) -> list[Use]:
    """In the order of topology and set, byte by byte."""
    return sorted(map(use_of, sets), key=lambda one: f"{one.topology}\t{one.podcliqueset}".encode())


def use_of(obj: Object) -> Use:
    """A set that cannot be read has a row all the same: what is missing in a list is taken for unused."""
    metadata = part(obj, "metadata")
    title = f"{text(metadata.get('namespace'))}/{text(metadata.get('name'))}"
    named = text(part(obj, "spec", "template").get("clusterTopologyName"))
    podcliqueset = read(obj, PodCliqueSet)
    if isinstance(podcliqueset, FieldError):
        return Use(named or IMPLICIT, title, False, f"cannot be read: {podcliqueset}")
    return Use(reference(podcliqueset)[1] or IMPLICIT, title, *_applies(podcliqueset))


def _applies(podcliqueset: PodCliqueSet) -> tuple[bool, str]:
    """By the constraints of the set, and by what the operator has last said about their topology (S1)."""
    if not constrained(podcliqueset):
        return False, "no topologyConstraint"
    said = condition(podcliqueset.status.conditions, TOPOLOGY_LEVELS_UNAVAILABLE)
    if said is None or said.status == "False":
        return True, ""
    return said.status == "True", said.message


def table(found: Sequence[Use], *, headers: bool) -> str:
    rows = [(plain(one.topology), plain(one.podcliqueset), plain(_shown(one))) for one in found]
    return columns([_HEAD, *rows] if headers else rows)


def _shown(one: Use) -> str:
    word = "yes" if one.applies else "no"
    return f"{word}: {one.why}" if one.why else word
