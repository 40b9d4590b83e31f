"""How large a document may be. What is beyond is refused before memory or time is spent on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

KIB = 1024
MIB = 1024 * KIB

MAX_DIGITS = 300
"""Of a whole number: what a double can still hold."""
MAX_DIRECTIVES = 16
"""Lines `%TAG`: the parser compares each with all before it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`values`: everything but keys. `aliased`: values that aliases stand for, each time they are named.

    `text_keys`: a key that is a number or a boolean is refused; otherwise it becomes its text, as kubectl has it.
    """

    bytes: int = 16 * MIB
    depth: int = 100
    values: int = 1_000_000
    aliased: int = 100_000
    documents: int = 10_000
    text_keys: bool = False

    def __post_init__(self) -> None:
        if min(self.bytes, self.depth, self.values, self.aliased, self.documents) < 1:
            raise ValueError(f"limits of a document: found {self}, allowed: positive numbers")

    @property
    def size(self) -> str:
        """The largest text, as people write it."""
        for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
            if self.bytes % unit == 0:
                return f"{self.bytes // unit} {name}"
        return f"{self.bytes} bytes"


FILE = Limits()
"""Manifests, configurations, kubeconfigs."""
INVENTORY = replace(FILE, bytes=256 * MIB, values=16_000_000, documents=1_000_000)
"""Nodes of a large cluster as kubectl prints them, ten or twenty kilobytes each."""
PAGE = replace(FILE, bytes=3 * MIB, values=200_000, documents=1_000)
"""What somebody pastes into a page."""
BODY = replace(FILE, bytes=8 * MIB, depth=300)
"""A review of an API server: an object of at most 3 MiB, and the one it replaces."""
LINE = replace(FILE, bytes=64 * KIB, values=1_000, documents=1)
"""An annotation or the output of a program that speaks in a few fields."""
