"""A server of its own with our kinds and our roles' rights, where nobody is at work yet; roles come in by token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from cluster_kit.real_programs import real_programs
from cluster_kit.server import Server
from cluster_kit.servers import embedded_server, kubectl_program
from cluster_kit.space import Space
from spinney.api.crds import all_crds
from spinney.api.roles import NAMESPACE
from spinney.sim.kubernetes.control_plane import ControlPlane, Settings
from stack_kit.stage import install_rights


@contextmanager
def bare_server(kind: str, directory: Path) -> Iterator[Server]:
    with embedded_server(directory) if kind == "embedded" else _real(directory) as server:
        cluster = Space(server, "")
        for definition in all_crds():
            cluster.apply("customresourcedefinitions", definition, force="true").ok(200, 201)
        for definition in all_crds():
            cluster.established(definition["metadata"]["name"])
        install_rights(server)
        yield server


@contextmanager
def _real(directory: Path) -> Iterator[Server]:
    assets = real_programs()
    with ControlPlane(Settings(assets, directory / "plane", ())) as plane:
        yield server_of(plane, directory)


def server_of(plane: ControlPlane, directory: Path) -> Server:
    """A real control plane as tests speak to it; its history is never expired."""
    return Server(
        kind="real",
        url=plane.url,
        kubeconfig=plane.kubeconfig,
        authority=plane.authority,
        tokens=plane.tokens,
        kubectl_program=kubectl_program(),
        scratch=directory,
        expire_history=lambda revision: None,
    )


def kubeconfig_of_role(server: Server, role: str, directory: Path) -> Path:
    """A kubeconfig with a token of the role's service account and its namespace, as a pod of it would have them."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{role}/token"
    token = server.http("POST", path, asked).ok(201)["status"]["token"]
    content = yaml.safe_load(server.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    content["contexts"][0]["context"]["namespace"] = NAMESPACE
    found = directory / f"kubeconfig-of-{role}"
    found.write_text(yaml.safe_dump(content))
    return found
