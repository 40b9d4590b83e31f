"""The frame around schemas: names, scope, versions, columns, subresources, conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spinney.api.crds.schema import root_schema
from spinney.api.meta import Kind


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; priority above 0 is shown with -o wide only."""

    name: str
    type: str
    path: str
    priority: int = 0

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return shown | {"priority": self.priority} if self.priority else shown


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec: str
    status: str
    selector: str


@dataclass(frozen=True, slots=True)
class Version:
    """One served version of a kind."""

    type: type[Kind]
    columns: tuple[Column, ...]
    storage: bool = True
    deprecation: str = ""

    @property
    def name(self) -> str:
        return self.type.VERSION


@dataclass(frozen=True, slots=True)
class Definition:
    """Everything a CustomResourceDefinition says; the names are those of the stored type."""

    versions: tuple[Version, ...]
    short_names: tuple[str, ...] = ()
    status: bool = True
    scale: Scale | None = None

    @property
    def stored(self) -> type[Kind]:
        return next(version.type for version in self.versions if version.storage)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Where the API server has objects converted: a URL, or a service with a path.

    `ca_bundle` is base64 of PEM; without it somebody else fills it in.
    """

    ca_bundle: str = ""
    url: str = ""
    service_namespace: str = ""
    service_name: str = ""
    service_path: str = "/convert"
    service_port: int = 443

    def client_config(self) -> dict[str, Any]:
        trust = {"caBundle": self.ca_bundle} if self.ca_bundle else {}
        if self.url:
            return {"url": self.url, **trust}
        service = {"namespace": self.service_namespace, "name": self.service_name, "path": self.service_path}
        return {"service": service | {"port": self.service_port}, **trust}


def render(definition: Definition, conversion: Conversion | None) -> dict[str, Any]:
    """The CRD object.

    Without a conversion only the stored version is served: the server would relabel objects of another version and
    prune what it does not know.
    """
    stored = definition.stored
    spec: dict[str, Any] = {
        "group": stored.GROUP,
        "names": _names(definition),
        "scope": "Namespaced" if stored.NAMESPACED else "Cluster",
        "versions": [
            _version(definition, version, served=version.storage or conversion is not None)
            for version in definition.versions
        ],
    }
    if len(definition.versions) > 1:
        spec["conversion"] = _conversion(conversion)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{stored.PLURAL}.{stored.GROUP}"},
        "spec": spec,
    }


def _names(definition: Definition) -> dict[str, Any]:
    stored = definition.stored
    names: dict[str, Any] = {
        "kind": stored.KIND,
        "listKind": f"{stored.KIND}List",
        "plural": stored.PLURAL,
        "singular": stored.KIND.lower(),
    }
    return names | {"shortNames": list(definition.short_names)} if definition.short_names else names


def _version(definition: Definition, version: Version, served: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": version.name, "served": served, "storage": version.storage}
    if version.deprecation:
        shown |= {"deprecated": True, "deprecationWarning": version.deprecation}
    shown["schema"] = {"openAPIV3Schema": root_schema(version.type)}
    subresources = _subresources(definition)
    if subresources:
        shown["subresources"] = subresources
    shown["additionalPrinterColumns"] = [column.to_json() for column in version.columns]
    return shown


def _subresources(definition: Definition) -> dict[str, Any]:
    shown: dict[str, Any] = {"status": {}} if definition.status else {}
    if definition.scale:
        shown["scale"] = {
            "specReplicasPath": definition.scale.spec,
            "statusReplicasPath": definition.scale.status,
            "labelSelectorPath": definition.scale.selector,
        }
    return shown


def _conversion(conversion: Conversion | None) -> dict[str, Any]:
    if conversion is None:
        return {"strategy": "None"}
    webhook = {"clientConfig": conversion.client_config(), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}
