"""Write the snapshot of Kubernetes' built-in kinds that the embedded API server starts from.

Two sources of facts: the OpenAPI v3 documents of a running kube-apiserver (types, formats, defaults, enums, list keys)
and the struct tags of the matching Go modules (protobuf numbers, which empty values are left out). Descriptions are
dropped: the project writes its own.

    python tools/openapi_snapshot.py --server URL --token TOKEN --ca ca.crt --modules "$(go env GOMODCACHE)"
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "src/kube_embedded/builtins/openapi.json.gz"
DISCOVERY = ROOT / "tests/unit/serve/builtins/discovery.json"
COLUMNS = DISCOVERY.with_name("columns.json")
STAGING = "0.36.3"

PATHS = {
    "api/v1": (
        "Namespace Node Pod Service ConfigMap Secret ServiceAccount Event PersistentVolume PersistentVolumeClaim "
        "PodTemplate ResourceQuota LimitRange Endpoints ReplicationController Binding"
    ),
    "apis/apps/v1": "ReplicaSet Deployment StatefulSet DaemonSet ControllerRevision",
    "apis/batch/v1": "Job CronJob",
    "apis/events.k8s.io/v1": "Event",
    "apis/discovery.k8s.io/v1": "EndpointSlice",
    "apis/coordination.k8s.io/v1": "Lease",
    "apis/node.k8s.io/v1": "RuntimeClass",
    "apis/scheduling.k8s.io/v1": "PriorityClass",
    "apis/policy/v1": "PodDisruptionBudget Eviction",
    "apis/autoscaling/v1": "HorizontalPodAutoscaler Scale",
    "apis/autoscaling/v2": "HorizontalPodAutoscaler",
    "apis/storage.k8s.io/v1": "StorageClass CSINode CSIDriver VolumeAttachment",
    "apis/resource.k8s.io/v1": "ResourceClaim ResourceClaimTemplate ResourceSlice DeviceClass",
    "apis/rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "apis/apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apis/admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
    "apis/authorization.k8s.io/v1": (
        "SelfSubjectAccessReview SubjectAccessReview SelfSubjectRulesReview LocalSubjectAccessReview"
    ),
    "apis/authentication.k8s.io/v1": "SelfSubjectReview TokenReview TokenRequest",
}
COMMON = ("DeleteOptions", "Status", "Table", "APIResourceList", "ListMeta")
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
REF = "#/components/schemas/"
KEPT = ("type", "format", "default", "enum", "required", "nullable", "allOf", "oneOf", "$ref")
MODULES = {
    "io.k8s.api.": "k8s.io/api@v{version}/",
    "io.k8s.apimachinery.": "k8s.io/apimachinery@v{version}/",
    "io.k8s.apiextensions-apiserver.": "k8s.io/apiextensions-apiserver@v{version}/",
}

Raw = dict[str, Any]
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`([^`]*)`", re.MULTILINE)
TAG = re.compile(r'(\w+):"([^"]*)"')


def main() -> int:
    arguments = _arguments()
    fetch = _fetcher(arguments.server, arguments.token, arguments.ca)
    documents = {path: fetch(f"/openapi/v3/{path}") for path in PATHS}
    components = _select(documents)
    go = _go_fields(components, Path(arguments.modules), arguments.staging)
    snapshot = {"components": components, "fields": go}
    text = json.dumps(snapshot, separators=(",", ":"), sort_keys=True)
    SNAPSHOT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    discovery = {path: fetch(f"/{path}")["resources"] for path in PATHS}
    DISCOVERY.write_text(json.dumps(discovery, indent=1, sort_keys=True) + "\n")
    columns = {path: _columns(fetch, path, resources) for path, resources in discovery.items()}
    COLUMNS.write_text(json.dumps(columns, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{len(components)} components, {len(text)} bytes\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="address of a kube-apiserver")
    parser.add_argument("--token", required=True, help="bearer token of an administrator")
    parser.add_argument("--ca", required=True, help="file with the certificate authority of the server")
    parser.add_argument("--modules", required=True, help="Go module cache with the sources of the same version")
    parser.add_argument("--staging", default=STAGING, help="version of the k8s.io modules")
    return parser.parse_args()


def _columns(fetch: Any, path: str, resources: list[Raw]) -> Raw:
    """Per listed resource: name, type, format and priority of the columns of its table."""
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    listed = [one["name"] for one in resources if "list" in one["verbs"]]
    return {
        name: [
            [one["name"], one["type"], one["format"], one["priority"]]
            for one in fetch(f"/{path}/{name}?limit=1", accept)["columnDefinitions"]
        ]
        for name in listed
    }


def _fetcher(server: str, token: str, ca: str) -> Any:
    context = ssl.create_default_context(cafile=ca)

    def fetch(path: str, accept: str = "application/json") -> Raw:
        headers = {"Authorization": f"Bearer {token}", "Accept": accept}
        request = urllib.request.Request(server + path, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, context=context, timeout=30) as reply:  # noqa: S310
            document: Raw = json.load(reply)
            return document

    return fetch


def _select(documents: dict[str, Raw]) -> dict[str, Raw]:
    """The chosen kinds and everything that they refer to, trimmed."""
    everything: dict[str, Raw] = {}
    wanted: list[str] = []
    for document in documents.values():
        everything.update(document["components"]["schemas"])
    for path in documents:
        wanted.extend(_components_of(path, everything))
    wanted.extend(META + name for name in COMMON if META + name in everything)
    chosen: dict[str, Raw] = {}
    while wanted:
        name = wanted.pop()
        if name not in chosen:
            chosen[name] = _trim(everything[name])
            wanted.extend(_references(chosen[name]))
    return chosen


def _components_of(path: str, schemas: dict[str, Raw]) -> list[str]:
    _, _, version = path.rpartition("/")
    group = path.split("/")[1] if path.startswith("apis/") else ""
    kinds = PATHS[path].split()
    found = [
        name
        for name, schema in schemas.items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
        if gvk["kind"] in kinds and (gvk["group"], gvk["version"]) == (group, version) and not name.startswith(META)
    ]
    assert len(found) == len(kinds), (path, found)
    return found


def _trim(schema: Raw) -> Raw:
    kept: Raw = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: _trim(one) for name, one in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            kept[key] = _trim(value)
        elif key in KEPT or key.startswith("x-kubernetes-") or key == "additionalProperties":
            kept[key] = value
    return kept


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(REF)
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for one in schema:
            yield from _references(one)


def _go_fields(components: dict[str, Raw], modules: Path, version: str) -> Raw:
    """Per component and JSON field: the Go type, the JSON options and the protobuf number."""
    packages: dict[str, dict[str, str]] = {}
    table: Raw = {}
    for name in sorted(components):
        package, _, struct = name.rpartition(".")
        if package not in packages:
            packages[package] = _structs(_directory(package, modules, version))
        if struct in packages[package]:
            table[name] = _fields(packages[package], struct, package.rpartition(".")[2])
    return table


def _directory(package: str, modules: Path, version: str) -> Path:
    for prefix, module in MODULES.items():
        if package.startswith(prefix):
            return modules / module.format(version=version) / package.removeprefix(prefix).replace(".", "/")
    raise SystemExit(f"no Go module is known for {package}")


def _structs(directory: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted(directory.glob("*.go")):
        if "generated" not in file.name and not file.name.endswith("_test.go"):
            found.update(STRUCT.findall(file.read_text()))
    return found


def _fields(structs: dict[str, str], struct: str, package: str) -> Raw:
    fields: Raw = {}
    for name, kind, tags in FIELD.findall(structs[struct]):
        tag = dict(TAG.findall(tags))
        json_name, _, options = tag.get("json", "").partition(",")
        if json_name == "-":
            continue
        if not json_name and not name and kind in structs:  # an embedded struct of the same package
            fields.update(_numbered_inline(structs, kind, package, tag))
            continue
        if json_name:
            number = tag.get("protobuf", ",0").split(",")[1]
            empties = ("o" if "omitempty" in options else "") + ("z" if "omitzero" in options else "")
            fields[json_name] = [_qualified(kind, package), empties, int(number)]
    return fields


def _numbered_inline(structs: dict[str, str], struct: str, package: str, tag: dict[str, str]) -> Raw:
    """Fields of an embedded struct are flat in JSON and one message deeper in protobuf: `[outer, inner, struct]`."""
    outer = int(tag["protobuf"].split(",")[1]) if "protobuf" in tag else 0
    inner = _fields(structs, struct, package)
    return {name: [kind, empties, [outer, number, struct]] for name, (kind, empties, number) in inner.items()}


def _qualified(kind: str, package: str) -> str:
    """`*Probe` in package v1 is `*v1.Probe` when Go names it."""
    match = re.match(r"^((?:\*|\[\]|map\[\w+\])*)(.*)$", kind)
    assert match
    prefix, base = match.groups()
    if "." in base:
        alias, _, base = base.rpartition(".")
        return f"{prefix}{'v1' if alias.endswith('v1') else alias}.{base}"
    return prefix + (f"{package}.{base}" if base[0].isupper() else base)


if __name__ == "__main__":
    sys.exit(main())
