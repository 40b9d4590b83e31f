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
        *("nodes", "queues", "topologies", "clustertopologies", "clustertopologybindings", "priorityclasses"),
        *("persistentvolumes", "storageclasses", "noderesourcetopologies", "schedulingshards", "configs"),
    )
)
BATCH = 200
"""So many objects of one kind exist at once; names repeat after as many."""
LONGEST = 1 << 20
_NUMBERED = "w-0"
_SHARED_GPU = ("gpu-fraction", "gpu-memory")
_GONE = "1970-01-01T00:00:00Z"


class Source:
    """Objects of one kind, one after the other. `base`: another valid object of the kind than that of `BASES`."""

    def __init__(self, plural: str, seed: int, base: Json | None = None) -> None:
        self.plural = plural
        self._base = base or BASES[plural]
        self._text = json.dumps(self._base)
        annotations = self._base["metadata"].get("annotations") or {}
        self._json_annotations = [key for key, value in annotations.items() if _is_json(value)]
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
        number = self._number % BATCH
        found: Json = json.loads(self._text.replace(_NUMBERED, f"w-{number}"))
        if self.plural == "pods":
            self._choose_life(found)
        if self._json_annotations and self._dice.random() < 0.4:
            key, annotations = self._dice.choice(self._json_annotations), found["metadata"]["annotations"]
            annotations[key] = self._spoil_text(annotations[key])
        for _ in range(self._dice.choice((0, 1, 1, 1, 2, 2, 4))):
            self._spoil(found)
        if self._dice.random() < 0.05 and isinstance(found.get("metadata"), dict):
            found["metadata"]["deletionTimestamp"] = _GONE
        return headed(self.plural, number, found, self._base)

    def _choose_life(self, pod: Json) -> None:
        """A pod with a node has no gates; one without may be in a gang that waits."""
        if self._dice.random() < 0.5:
            del pod["spec"]["schedulingGates"]
        else:
            del pod["spec"]["nodeName"]
        if self._dice.random() < 0.5:
            del pod["spec"]["affinity"]
        if self._dice.random() < 0.9:  # pods that share a GPU are not placed at all
            _unshare(pod)

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
        elif _is_json(value) and chance < 0.8:
            where[key] = self._spoil_text(value)
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

    def _spoil_text(self, text: str) -> str:
        """An annotation that holds JSON, such as a plan, with a hostile value inside."""
        inside = json.loads(text)
        self._spoil(inside)
        return json.dumps(inside)

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


def _is_json(value: Any) -> bool:
    """An object with something in it; a hostile text may only begin like one."""
    if not isinstance(value, str) or not value.startswith("{"):
        return False
    try:
        return bool(json.loads(value))
    except ValueError:
        return False


def _unshare(pod: Json) -> None:
    for key in _SHARED_GPU:
        del pod["metadata"]["annotations"][key]


def valid(plural: str) -> Json:
    """The base as an object of its own; a pod runs and has GPUs of its own."""
    found: Json = json.loads(json.dumps(BASES[plural]))
    if plural == "pods":
        del found["spec"]["schedulingGates"]
        _unshare(found)
    return headed(plural, 0, found)


def headed(plural: str, number: int, found: Json, base: Json | None = None) -> Json:
    """The object with the kind that it has to have, and a name."""
    metadata = found["metadata"] if isinstance(found.get("metadata"), dict) else {}
    metadata["name"] = f"{plural[:20]}-{number}"
    if plural not in CLUSTER_WIDE:
        metadata["namespace"] = "ns"
    kept = base or BASES[plural]
    return {**found, "apiVersion": kept["apiVersion"], "kind": kept["kind"], "metadata": metadata}


def as_version_of(found: Json, other: Json) -> Json:
    """The object as a later version of another: with the name and the identity of that."""
    identity = {key: other["metadata"][key] for key in ("name", "namespace", "uid") if key in other["metadata"]}
    kept = {key: value for key, value in found["metadata"].items() if key != "uid"}
    return {**found, "metadata": {**kept, **identity}}


def _renamed(item: Any, number: int) -> Any:
    """Lists of named things do not have a name twice."""
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        item["name"] = f"{item['name'][:20]}-{number}"
    return item
