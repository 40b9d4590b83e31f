"""Manifests from files to a server: read, find where they belong, apply in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import written
from spinney.drive.apply.write import ANY
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import NotFound
from spinney.drive.client.paths import Ref, ResourcePath

Manifest = dict[str, Any]


class ManifestError(ValueError):
    """A manifest that cannot be used; the message names file, document and field."""


def read_manifests(paths: Iterable[Path]) -> list[Manifest]:
    """Every document of the files, in order; a List counts as its items."""
    found: list[Manifest] = []
    for path in paths:
        try:
            documents = list(yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader))
        except (OSError, UnicodeDecodeError) as error:
            raise ManifestError(f"{path}: cannot be read: {error}") from error
        except yaml.YAMLError as error:
            raise ManifestError(f"{path}: is not YAML: {error}") from error
        for number, document in enumerate(documents, start=1):
            found.extend(_checked(document, f"{path}, document {number}"))
    return found


def _checked(document: Any, where: str) -> list[Manifest]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: found {type(document).__name__}, expected an object with apiVersion and kind")
    if document.get("kind") == "List":
        items = document.get("items") or []
        return [one for index, item in enumerate(items) for one in _checked(item, f"{where}, items[{index}]")]
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise ManifestError(f"{where}: {field}: found {document.get(field)!r}, expected a text")
    name = (document.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{where}: metadata.name: found {name!r}, expected a name")
    return [document]


async def apply_all(client: ApiClient, door: Door, manifests: Sequence[Manifest]) -> int:
    """Server-side apply, one after the other; how many there were."""
    for manifest in manifests:
        ref = await _where(client, manifest)
        written(await door.apply(ref, manifest, ANY))
    return len(manifests)


async def _where(client: ApiClient, manifest: Manifest) -> Ref:
    """The path of a manifest, by asking the server what its kind is called."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    page = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        listed = msgspec.json.decode(await client.read(page))["resources"]
    except NotFound:
        listed = []
    for one in listed:
        if one["kind"] == manifest["kind"] and "/" not in one["name"]:
            path = ResourcePath(group, version, one["name"], one["namespaced"])
            namespace = (manifest["metadata"].get("namespace") or "default") if one["namespaced"] else ""
            return path.ref(manifest["metadata"]["name"], namespace)
    raise ManifestError(
        f"{manifest['kind']} {manifest['metadata']['name']}: the server has no {manifest['apiVersion']} "
        f"{manifest['kind']}"
    )
