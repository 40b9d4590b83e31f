"""Objects as nobody in their right mind writes them: valid ones of each kind, with hostile values put anywhere.

The same seed gives the same objects. Most values have the type of what they replace, so that a server accepts many.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

QUANTITIES = [
    *("0", "1", "-1", "1n", "0.5", "1500m", "9223372036854775807", "9223372036854775808", "1e400", "1E-400", "1e5000"),
    *("9" * 5000, "9" * 5000 + "Ki", "0." + "0" * 5000 + "1", "0." + "9" * 300 + "Gi", "9" * 30, "9" * 5000 + "m"),
]
STRINGS = [
    *("", " ", "a", "A" * 63, "x" * 300, "<script>alert(1)</script>", "ünï¢ödé", "\u202e", "\u0000", "../..", "%00"),
    *("python3 -m " * 4000, "[" * 30_000, "9" * 5000 + "h", "\u00b2"),
    *("a/b", "a,b", "9" * 5000, "-1", "1e400", "null", "{}", "[" * 200, "True", "a\nb", "1970-01-01T00:00:00Z", "10%"),
]
NUMBERS = [0, 1, -1, 2, 3, 100, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63), 10**6]
OTHERS = ["null", "[]", "{}", '""', "0", "true", "1.5", "1e300", "[null]", '{"": null}', "[[]]", f'"{"9" * 5000}"']

BASES: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("bases.yaml").read_text())
CLUSTER_WIDE = frozenset(
    (
        *("nodes", "queues", "topologies", "clustertopologies", "priorityclasses", "persistentvolumes"),
        *("storageclasses", "noderesourcetopologies"),
    )
)
LONGEST = 1 << 20
_TEXTS = {plural: json.dumps(base) for plural, base in BASES.items()}


class Source:
    """Objects of one kind, one after the other."""

    def __init__(self, plural: str, seed: int) -> None:
        self.plural = plural
        self._dice = random.Random(f"{plural}/{seed}")
        self._number = 0

    def objects(self, count: int) -> Iterator[Json]:
        """None is longer than a server would store."""
        for _ in range(count):
            found = self.next()
            while len(json.dumps(found)) > LONGEST:
                found = self.next()
            yield found

    def next(self) -> Json:
        self._number += 1
        found: Json = json.loads(_TEXTS[self.plural])
        if self.plural == "pods":
            self._choose_life(found)
        for _ in range(self._dice.choice((0, 1, 1, 1, 2, 2, 4))):
            self._spoil(found)
        metadata = found["metadata"] if isinstance(found.get("metadata"), dict) else {}
        metadata["name"] = f"{self.plural[:20]}-{self._number}"
        if self.plural not in CLUSTER_WIDE:
            metadata["namespace"] = "ns"
        return {
            **found,
            "apiVersion": BASES[self.plural]["apiVersion"],
            "kind": BASES[self.plural]["kind"],
            "metadata": metadata,
        }

    def _choose_life(self, pod: Json) -> None:
        """A pod with a node has no gates; one without may be in a gang that waits."""
        if self._dice.random() < 0.5:
            del pod["spec"]["schedulingGates"]
        else:
            del pod["spec"]["nodeName"]
        if self._dice.random() < 0.5:
            del pod["spec"]["affinity"]

    def _spoil(self, found: Json) -> None:
        """Put a hostile value somewhere below `metadata`, `spec` or `status`."""
        dice = self._dice
        top = dice.choice([key for key in found if key not in ("apiVersion", "kind")])
        where: Any = found
        key: Any = top
        while isinstance(where[key], (dict, list)) and where[key] and dice.random() < 0.85:
            where = where[key]
            key = dice.choice(list(where)) if isinstance(where, dict) else dice.randrange(len(where))
        if where is found and key == "metadata":
            return
        self._replace(where, key, found)

    def _replace(self, where: Any, key: Any, found: Json) -> None:
        dice, value = self._dice, where[key]
        chance = dice.random()
        if chance < 0.12:
            del where[key]
        elif chance < 0.2:
            where[key] = json.loads(dice.choice(OTHERS))
        elif isinstance(value, list):
            self._lengthen(value)
        elif isinstance(value, dict):
            self._widen(value)
        elif isinstance(value, bool):
            where[key] = not value
        elif isinstance(value, (int, float)):
            where[key] = dice.choice(NUMBERS)
        elif key in ("cpu", "memory", "pods", "storage", "nvidia.com/gpu", "capacity", "allocatable", "available"):
            where[key] = dice.choice(QUANTITIES)
        else:
            where[key] = dice.choice(STRINGS)

    def _lengthen(self, value: list[Any]) -> None:
        if not value:
            return
        times = self._dice.choice((0, 2, 2, 3, 20, 20, 200))
        copies = json.dumps(self._dice.choice(value))
        value[:] = [_renamed(json.loads(copies), number) for number in range(times)]

    def _widen(self, value: Json) -> None:
        example = next(iter(value.values()), "x")
        for number in range(self._dice.choice((1, 2, 20, 100))):
            value[f"example.com/k{number}"] = example


def _renamed(item: Any, number: int) -> Any:
    """Lists of named things do not have a name twice."""
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        item["name"] = f"{item['name'][:20]}-{number}"
    return item
