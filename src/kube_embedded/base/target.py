"""What a path means: which resource, which object, which subresource.

Only the shape of the path is read here; whether the resource exists is the registry's to say.
"""

from __future__ import annotations

from urllib.parse import unquote

import msgspec


class Target(msgspec.Struct, frozen=True):
    """The parts of a resource path; empty where a part is absent."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_target(path: str) -> Target | None:
    """`/api/v1/...` or `/apis/GROUP/VERSION/...` with at least a plural, else None."""
    if "//" in path:
        return None
    parts = path.split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if not parts[-1]:
        parts.pop()
    if len(parts) > 3 and parts[1] == "api":
        return _rest("", parts[2], parts[3:])
    if len(parts) > 4 and parts[1] == "apis":
        return _rest(parts[2], parts[3], parts[4:])
    return None


def _rest(group: str, version: str, rest: list[str]) -> Target | None:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    return Target(group, version, rest[0], namespace, *rest[1:])
