"""Paths that are no resources: discovery, schemas, health, version."""

from __future__ import annotations

from kube_embedded.base.errors import NoSuchPath, method_not_allowed, no_such_path
from kube_embedded.base.http import HttpReply, json_reply
from kube_embedded.base.resource import Registry
from kube_embedded.discovery import api_groups
from kube_embedded.discovery.openapi import Documents

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+spinney",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "python",
}
_HEALTH = ("/healthz", "/livez", "/readyz")


class NonResourcePaths:
    """What the registry says about itself; whether somebody may read it is asked elsewhere."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents = Documents(registry)

    def answer(self, method: str, path: str, accept: str) -> HttpReply:
        """The page, or the refusal that a real server gives for a path that is none."""
        if method not in ("GET", "HEAD"):
            raise method_not_allowed() if self._document(path, "") is not None else NoSuchPath()
        if path in _HEALTH or path.startswith(tuple(f"{one}/" for one in _HEALTH)):
            return HttpReply(200, b"ok", content_type="text/plain; charset=utf-8")
        found = self._document(path, accept)
        if found is None:
            parts = path.split("/")
            known = len(parts) == 4 and parts[1] == "apis" and parts[2] in self._registry.groups()
            raise no_such_path() if known else NoSuchPath()
        return found

    def _document(self, path: str, accept: str) -> HttpReply | None:
        registry = self._registry
        if path in ("/api", "/apis"):
            core = path == "/api"
            if "as=APIGroupDiscoveryList" in accept and "v=v2" in accept:
                reply = json_reply(api_groups.aggregated(registry, core))
                reply.content_type = api_groups.AGGREGATED_V2
                return reply
            return json_reply(api_groups.api_versions() if core else api_groups.api_groups(registry))
        if path == "/version":
            return json_reply(VERSION)
        if path == "/openapi/v3":
            return json_reply(self._documents.index())
        if path.startswith("/openapi/v3/"):
            body = self._documents.document(path.removeprefix("/openapi/v3/"))
            return HttpReply(200, body) if body is not None else None
        return self._group(path)

    def _paths(self) -> list[str]:
        found = {"/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"}
        for group, versions in self._registry.groups().items():
            root = f"/apis/{group}" if group else "/api"
            found |= {root, *(f"{root}/{version}" for version in versions)}
        return sorted(found)

    def _group(self, path: str) -> HttpReply | None:
        registry = self._registry
        match path.split("/"):
            case ["", "api", version]:
                group = ""
            case ["", "apis", group]:
                known = group in registry.groups() and group
                return json_reply(api_groups.api_group(registry, group)) if known else None
            case ["", "apis", group, version]:
                pass
            case ["", ""]:
                return json_reply({"paths": self._paths()})
            case _:
                return None
        if version not in registry.groups().get(group, ()):
            return None
        return json_reply(api_groups.api_resources(registry, group, version))
