"""Servers of both kinds that nobody works on, and accounts with chosen rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from cluster_kit.server import Server
from cluster_kit.space import Space

Json = dict[str, Any]


def account(server: Server, name: str, rules: list[Json], directory: Path) -> Path:
    cluster, space = Space(server, ""), Space(server, "default")
    space.apply("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}).ok(201)
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    cluster.apply("clusterroles", role).ok(201)
    bound = {"apiGroup": rbac, "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
    cluster.apply("clusterrolebindings", {**binding, "roleRef": bound, "subjects": [subject]}).ok(201)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    token = server.http("POST", path, asked).ok(201)["status"]["token"]
    content = yaml.safe_load(server.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    file = directory / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    return file
