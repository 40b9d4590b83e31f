"""The nodes of a problem. Equal texts, amounts and taints become one value: large clusters repeat themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spinney.api.placement.problem import ZONE_POLICIES, Amounts, Node, Taint, Zone
from spinney.api.placement.reading.errors import Path, refused
from spinney.api.placement.reading.fields import Scale, distinct, one_of, ports
from spinney.api.placement.reading.node_filters import read_taints
from spinney.api.placement.reading.wire import WireNode, WireTaint, WireZone


def read_nodes(wire: tuple[WireNode, ...], resources: tuple[str, ...], scale: Scale) -> tuple[Node, ...]:
    distinct([one.name for one in wire], ("nodes",), "name")
    return tuple(_Nodes(resources, scale).read(wire))


class _Nodes:
    """Remembers what other nodes had."""

    def __init__(self, resources: tuple[str, ...], scale: Scale) -> None:
        self._resources = resources
        self._scale = scale
        self._texts: dict[str, str] = {}
        self._taints: dict[tuple[WireTaint, ...], tuple[Taint, ...]] = {(): ()}

    def read(self, wire: Iterable[WireNode]) -> Iterable[Node]:
        scale = self._scale
        for index, one in enumerate(wire):
            path: Path = ("nodes", index)
            used = scale.demand(one.used, (*path, "used"))
            yield Node(
                name=one.name,
                labels=self._labels(one.labels),
                allocatable=scale.supply(one.allocatable, (*path, "allocatable")),
                used=used,
                releasing=self._releasing(one, used, (*path, "releasing")),
                taints=self._met(one.taints or (), (*path, "taints")),
                unschedulable=bool(one.unschedulable),
                ready=one.ready is not False,
                host_ports=ports(one.host_ports, (*path, "hostPorts")),
                zones=self._zones(one.zones, (*path, "zones")) if one.zones else (),
                zone_policy=one_of(one.zone_policy, "", ZONE_POLICIES, (*path, "zonePolicy")),
            )

    def _zones(self, wire: tuple[WireZone, ...], path: Path) -> tuple[Zone, ...]:
        distinct([one.name for one in wire], path, "name")
        return tuple(self._zone(one, (*path, index)) for index, one in enumerate(wire))

    def _zone(self, one: WireZone, path: Path) -> Zone:
        used = self._scale.demand(one.used, (*path, "used"))
        return Zone(
            name=one.name,
            allocatable=self._scale.supply(one.allocatable, (*path, "allocatable")),
            used=used,
            releasing=self._releasing(one, used, (*path, "releasing")),
        )

    def _labels(self, labels: Mapping[str, str] | None) -> Mapping[str, str]:
        shared = self._texts.setdefault
        return {shared(key, key): shared(value, value) for key, value in labels.items()} if labels else {}

    def _releasing(self, wire: WireNode | WireZone, used: Amounts, path: Path) -> Amounts:
        """What is terminating is a part of what is used."""
        releasing = self._scale.supply(wire.releasing, path)
        if wire.releasing:
            for name, amount, most in zip(self._resources, releasing, used, strict=True):
                if amount > most:
                    raise refused((*path, name), wire.releasing[name], "no more than is used")
        return releasing

    def _met(self, wire: tuple[WireTaint, ...], path: Path) -> tuple[Taint, ...]:
        found = self._taints.get(wire)
        if found is None:
            found = self._taints[wire] = read_taints(wire, path)
        return found
