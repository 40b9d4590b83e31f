"""Container images made from files of this machine, without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
BUSYBOX_APPLETS = ("sh", "sleep", "wget", "nslookup", "httpd", "cat", "echo", "hostname", "touch", "true", "date")


def write_busybox(path: Path, busybox: Path, names: Sequence[str]) -> None:
    """An archive of a shell and a few commands; what it runs when nothing else is asked for sleeps for ever."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.add(busybox.resolve(), "bin/busybox")
        scratch = tarfile.TarInfo("tmp")
        scratch.type, scratch.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(scratch)
        for name in BUSYBOX_APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    write_archive(path, names, layer.getvalue(), ("/bin/sleep", "2147483647"))


def write_archive(path: Path, names: Sequence[str], layer: bytes, entrypoint: Sequence[str]) -> None:
    """An OCI archive of one layer under each of the names."""
    config = _json(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Entrypoint": list(entrypoint), "User": "65532:65532"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, layer)],
        }
    )
    named = [_descriptor(_MANIFEST, manifest) | {"annotations": {"io.containerd.image.name": name}} for name in names]
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(_index(named))}
    files |= {f"blobs/{_digest(blob).replace(':', '/')}": blob for blob in (config, manifest, layer)}
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def _index(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schemaVersion": 2, "manifests": manifests}


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
