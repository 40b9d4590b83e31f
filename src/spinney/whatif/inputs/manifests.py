"""Reads manifests from files, resolves their resources and applies them in order.

Never applies anything before every file has been read.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinney.api.documents import FILE, INVENTORY, DocumentError, Limits, read_bounded, read_documents, read_json
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError, NotFound, Policy
from spinney.drive.client.paths import Ref, ResourcePath

_SUFFIXES = (".json", ".yaml", ".yml")
_REFERRED_TO = ("CustomResourceDefinition", "Namespace", "PriorityClass", "ClusterTopology", "ClusterTopologyBinding")
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SERVED_WITHIN_S = 10.0
_POLL_S = 0.1


class ManifestError(ValueError):
    """A manifest that cannot be used; the message names file, document and field."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object and the place in its file."""

    where: str
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.content["kind"])

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} {self.name}"


def read_manifests(paths: Iterable[Path]) -> list[Manifest]:
    """Every document of the files, in order; a directory counts as its files, `-` as standard input."""
    found: list[Manifest] = []
    for path in paths:
        for file, body in _bodies(path):
            found += parse_manifests(body, file)
    return found


def parse_manifests(text: bytes | str, where: str, limits: Limits = FILE) -> list[Manifest]:
    """Every document of a text, in order."""
    return check_manifests(_documents(where, text, limits), where)


def check_manifests(documents: Iterable[Any], where: str) -> list[Manifest]:
    """Parsed documents as manifests; each has apiVersion, kind and a name."""
    found: list[Manifest] = []
    for number, document in enumerate(documents, start=1):
        found.extend(_checked(document, f"{where}, document {number}"))
    return found


def manifests_of(objects: Iterable[dict[str, Any]], where: str) -> list[Manifest]:
    return [Manifest(where, one) for one in objects]


def _bodies(path: Path) -> Iterator[tuple[str, bytes]]:
    if str(path) == "-":
        yield "standard input", standard_input()
        return
    try:
        files = sorted(one for one in path.iterdir() if one.suffix in _SUFFIXES) if path.is_dir() else [path]
    except OSError as error:
        raise ManifestError(f"{error.filename or path}: cannot be read: {error.strerror}") from error
    for file in files:
        yield str(file), _content(file)


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return read_bounded(stream, str(file))
    except OSError as error:
        raise ManifestError(f"{file}: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise ManifestError(str(error)) from error


def standard_input(limits: Limits = FILE) -> bytes:
    """Standard input until its end, within the limits."""
    if sys.stdin is None:
        raise ManifestError("standard input: cannot be read: it is closed")
    try:
        return read_bounded(sys.stdin.buffer, "standard input", limits)
    except OSError as error:
        raise ManifestError(f"standard input: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise ManifestError(str(error)) from error


def _documents(file: str, text: bytes | str, limits: Limits) -> list[Any]:
    try:
        return read_documents(text, file, limits)
    except DocumentError as error:
        raise ManifestError(str(error)) from error


def _checked(document: Any, where: str) -> list[Manifest]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: found {type(document).__name__}, expected an object with apiVersion and kind")
    if document.get("kind") == "List":
        items = document.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{where}: items: found {type(items).__name__}, expected a list")
        return [one for index, item in enumerate(items) for one in _checked(item, f"{where}, items[{index}]")]
    for field in ("apiVersion", "kind"):
        _require_text(document, field, where)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise ManifestError(f"{where}: metadata: found {metadata!r}, expected an object with a name")
    _require_text(metadata, "name", where, "metadata.")
    if metadata.get("namespace") is not None:
        _require_text(metadata, "namespace", where, "metadata.")
    return [Manifest(where, document)]


def _require_text(part: dict[str, Any], field: str, where: str, path: str = "") -> None:
    if not isinstance(part.get(field), str) or not part[field]:
        raise ManifestError(f"{where}: {path}{field}: found {part.get(field)!r}, expected a text")


async def apply_all(client: ApiClient, door: Door, manifests: Sequence[Manifest]) -> int:
    """Server-side apply in order, referenced kinds first; returns the number of objects."""
    for manifest in sorted(manifests, key=lambda manifest: manifest.kind not in _REFERRED_TO):
        ref = await _where(client, manifest)
        try:
            written(await door.apply(ref, manifest.content, ANY))
        except ClientError as error:
            if error.policy is Policy.TELL_USER:
                raise ManifestError(f"{manifest}: {error}") from error
            raise
    return len(manifests)


async def _where(client: ApiClient, manifest: Manifest) -> Ref:
    """The reference of a manifest's object, through the server's discovery of its kind."""
    deadline = asyncio.get_running_loop().time() + _SERVED_WITHIN_S
    while True:
        path = await _path(client, manifest)
        if path is not None:
            break
        late = asyncio.get_running_loop().time() > deadline
        if late or not await _is_defined(client, manifest):
            raise ManifestError(f"{manifest}: the server has no {manifest.content['apiVersion']} {manifest.kind}")
        await asyncio.sleep(_POLL_S)
    namespace = (manifest.content["metadata"].get("namespace") or "default") if path.namespaced else ""
    return path.ref(manifest.name, namespace)


async def _path(client: ApiClient, manifest: Manifest) -> ResourcePath | None:
    group, version = _group_version(manifest)
    page = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        listed = read_json(await client.read(page), limits=INVENTORY)["resources"]
    except NotFound:
        return None
    for one in listed:
        if one["kind"] == manifest.kind and "/" not in one["name"]:
            return ResourcePath(group, version, one["name"], one["namespaced"])
    return None


async def _is_defined(client: ApiClient, manifest: Manifest) -> bool:
    """Whether a CustomResourceDefinition declares this kind as served: the server serves it a moment later."""
    group, version = _group_version(manifest)
    for one in read_json(await client.read(_DEFINITIONS), limits=INVENTORY)["items"]:
        spec = one["spec"]
        if (spec["group"], spec["names"]["kind"]) == (group, manifest.kind):
            return any(each["name"] == version and each["served"] for each in spec["versions"])
    return False


def _group_version(manifest: Manifest) -> tuple[str, str]:
    group, _, version = manifest.content["apiVersion"].rpartition("/")
    return group, version
