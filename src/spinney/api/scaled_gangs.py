"""What a base gang says of the gangs that are tied to it: how many its set asks for, and what they consist of (G12).

The operator writes it as annotation `spinney.dev/scaled-gangs`, so that the scheduler can choose a domain for the whole
set before the other gangs exist. A hint: what cannot be read is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class ScaledGangs(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Equal gangs `<name>-0` to `<name>-<count - 1>`, each with pods as in `pod_groups` of the base gang.

    `level`: the node label of the domain that they share with it; `required`: that of their own constraint.
    """

    name: str
    count: int
    level: str
    pod_groups: tuple[str, ...]
    required: str | None = None

    def names(self, most: int) -> list[str]:
        """The first of the gangs."""
        return [f"{self.name}-{number}" for number in range(min(self.count, most))]


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(tuple[ScaledGangs, ...])


def encode(found: Iterable[ScaledGangs]) -> str:
    return _ENCODER.encode(tuple(found)).decode()


def decode(text: str) -> tuple[ScaledGangs, ...]:
    """Empty where it cannot be read."""
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return ()
