"""Comparing the answers of two servers: what must be equal, and what each server chooses for itself."""

from __future__ import annotations

import json
import re
from typing import Any

from cluster_kit.server import Reply

CHOSEN = {"resourceVersion", "uid", "time", "continue", "clusterIP", "clusterIPs"}
"""Fields whose value is each server's own."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ADDRESS = re.compile(r"\b10\.96\.\d{1,3}\.\d{1,3}\b")
"""Addresses of Services, of which each server draws its own."""
AGE = re.compile(r"\d+s")
DETAIL = re.compile(r"\n@@|\n\{|\nchanged:")
"""Where a message goes on to show what changed, in Go's words or in ours."""
STRUCT = re.compile(r"Invalid value: \{.*\}:")
"""The real server shows some values as Go structs."""
EMPTIED = "Invalid value: {}:"
"""A map that lost its last key: the real server tells it from one that was never there, we do not."""


def differences(real: Reply, ours: Reply) -> list[str]:
    """What differs between two answers to the same request, one line each."""
    if real.status != ours.status:
        return [f"status: real {real.status} {brief(real.body)}, ours {ours.status} {brief(ours.body)}"]
    found = _compare(plain(real.body), plain(ours.body), "")
    if sorted(real.warnings) != sorted(ours.warnings):
        found.append(f"warnings: real {real.warnings}, ours {ours.warnings}")
    return found


def plain(value: Any, key: str = "") -> Any:
    """The value without what each server chooses for itself."""
    if isinstance(value, dict):
        return {name: "*" if name in CHOSEN else plain(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return _plain_list([plain(each) for each in value], key)
    if isinstance(value, str):
        return _plain_text(value)
    return value


def _plain_list(items: list[Any], key: str) -> list[Any]:
    if key == "columnDefinitions":
        return [{name: each for name, each in item.items() if name != "description"} for item in items]
    if key == "causes":
        # The real server validates metadata more than once on updates and repeats itself.
        return sorted({json.dumps(item, sort_keys=True) for item in items})
    if key == "managedFields":
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    return items


def _plain_text(text: str) -> str:
    if AGE.fullmatch(text):
        return "AGE"
    for pattern, word in ((UID, "UID"), (TIME, "TIME"), (ADDRESS, "ADDRESS")):
        text = pattern.sub(word, text)
    shown = DETAIL.split(text)[0].replace(EMPTIED, "Invalid value: null:")
    return STRUCT.sub("Invalid value: {...}:", shown)


def brief(value: Any) -> str:
    return json.dumps(value)[:300]


def _compare(real: Any, ours: Any, where: str) -> list[str]:
    if isinstance(real, dict) and isinstance(ours, dict):
        return [line for name in sorted({*real, *ours}) for line in _compare_key(real, ours, name, f"{where}.{name}")]
    if isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        return [
            line
            for index, pair in enumerate(zip(real, ours, strict=True))
            for line in _compare(*pair, f"{where}[{index}]")
        ]
    return [] if real == ours else [f"{where}: real {brief(real)}, ours {brief(ours)}"]


def _compare_key(real: Any, ours: Any, name: str, where: str) -> list[str]:
    if name not in real:
        return [f"{where}: only ours, {brief(ours[name])}"]
    if name not in ours:
        return [f"{where}: only real, {brief(real[name])}"]
    return _compare(real[name], ours[name], where)
