"""Addresses for simulated nodes and pods: each one once.

Never gives an address that somebody holds; one that is given back comes around again last.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import cycle

POD_NETWORKS = tuple(IPv4Network(f"10.{second}.0.0/16") for second in range(244, 256))
NODE_NETWORKS = (IPv4Network("172.16.0.0/12"),)


class Addresses:
    """The addresses of some networks, by who holds them."""

    def __init__(self, networks: tuple[IPv4Network, ...]) -> None:
        self._networks = networks
        self._size = sum(network.num_addresses - 2 for network in networks)
        self._next = cycle(self._all())
        self._holders: dict[str, str] = {}
        self._held: dict[str, str] = {}

    def of(self, holder: str) -> str:
        """The holder's address; a new one the first time."""
        found = self._held.get(holder)
        if found is not None:
            return found
        if len(self._holders) >= self._size:
            raise RuntimeError(f"all {self._size} addresses of {self._networks} are taken")
        address = next(address for address in self._next if address not in self._holders)
        self.keep(holder, address)
        return address

    def keep(self, holder: str, address: str) -> None:
        """The holder has this address already."""
        self._holders[address] = holder
        self._held[holder] = address

    def release(self, holder: str) -> None:
        address = self._held.pop(holder, None)
        if address is not None:
            del self._holders[address]

    def _all(self) -> Iterator[str]:
        for network in self._networks:
            first = int(network.network_address)
            for number in range(first + 1, first + network.num_addresses - 1):
                yield str(IPv4Address(number))
