"""The kubeconfig through which people and programs reach a control plane with a bearer token."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(path: Path, *, name: str, url: str, authority: Path | None, user: str, token: str) -> None:
    """Write a file with one cluster, one user and one context, readable by its owner only."""
    cluster: dict[str, Any] = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        "current-context": name,
    }
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
