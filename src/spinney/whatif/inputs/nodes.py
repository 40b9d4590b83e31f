"""Nodes from a file: a YAML stream of v1 Nodes, of compact descriptions of a cluster, or of both.

A compact description has levels with their fan-out, and what one node has:

    name: gb200                       # optional; begins every node name
    levels:                           # broad to narrow, the last one is the node
      - {name: zone,  label: topology.kubernetes.io/zone,  count: 1}
      - {name: block, label: topology.kubernetes.io/block, count: 2}
      - {name: rack,  label: topology.kubernetes.io/rack,  count: [4, 3]}
      - {name: host,  count: 18}
    capacity: {cpu: 144, memory: 960Gi, nvidia.com/gpu: 4}
    allocatable: {cpu: 140}           # optional; what is not named is the capacity
    labels: {nvidia.com/gpu.clique: "clique-{rack}"}
    annotations: {example.com/site: north}
    taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
    unschedulable: false

`count` is how many of a level each parent holds: one number for all parents, or a list with one number per parent. A
domain is called after its path (`gb200-z0-b1-r3`), by the first letter of each level unless `short` says otherwise;
numbers are padded so that names sort. `{level}` in a label or annotation is the domain of that level. Every node has
`kubernetes.io/hostname`, `kubernetes.io/os`, `kubernetes.io/arch`. `capacity` may leave out cpu (8), memory (32Gi) and
pods (110).

Never guesses: a document that is neither is refused with its file, line and field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from kube_apimachinery import quantity
from kube_apimachinery.name_validation import dns_subdomain, label_value, qualified_name
from spinney.api.documents import INVENTORY, DocumentError, line_of, read_bounded, read_documents

DEFAULT_CAPACITY: Mapping[str, str] = {"cpu": "8", "memory": "32Gi", "pods": "110"}
HOSTNAME_LABEL = "kubernetes.io/hostname"
MAX_NODES = 200_000
MAX_LEVELS = 32

_FIELDS = ("name", "levels", "capacity", "allocatable", "labels", "annotations", "taints", "unschedulable")
_LEVEL_FIELDS = ("name", "label", "short", "count")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

Path = tuple[str | int, ...]


class DescriptionError(ValueError):
    """A field that cannot be used: where it is, what was found, what is allowed."""

    def __init__(self, path: Path, found: Any, allowed: str) -> None:
        super().__init__(f"{spell(path)}: found {_shown(found)}, allowed: {allowed}")
        self.path = path


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the tree; `counts` has one number, or one per parent domain."""

    name: str
    label: str
    short: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain of the topology tree, as the path of domains from the broadest level."""

    path: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path[-1]


def spell(path: Path) -> str:
    """A field path in the usual notation: `levels[1].count`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "document"


def expand(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a compact description, in tree order."""
    _only(document, _FIELDS, ())
    levels = _levels(document.get("levels"))
    domains = _domains(_prefix(document), levels)
    capacity = {**DEFAULT_CAPACITY, **quantities(document.get("capacity", {}), ("capacity",))}
    allocatable = {**capacity, **quantities(document.get("allocatable", {}), ("allocatable",))}
    spec: dict[str, Any] = {}
    if taints := check_taints(document.get("taints", []), ("taints",)):
        spec["taints"] = taints
    if _flag(document.get("unschedulable", False), ("unschedulable",)):
        spec["unschedulable"] = True
    labels = _templates(document, "labels", levels)
    annotations = _templates(document, "annotations", levels)
    _check_labels(document, labels, levels, domains)
    _check_size((labels, annotations, capacity, allocatable), levels, domains)
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _metadata(domain, levels, labels, annotations),
            "spec": dict(spec),
            "status": {"capacity": dict(capacity), "allocatable": dict(allocatable)},
        }
        for domain in domains
    ]


def quantities(value: Any, path: Path) -> dict[str, str]:
    """A map of resource amounts, each as a quantity string."""
    found: dict[str, str] = {}
    for key, amount in _mapping(value, path).items():
        if not isinstance(key, str) or qualified_name(key):
            raise DescriptionError((*path, str(key)), key, "a resource name such as cpu or nvidia.com/gpu")
        try:
            negative = quantity.compare(amount, 0) < 0
        except quantity.QuantityError:
            negative = True
        if negative:
            raise DescriptionError((*path, key), amount, "a quantity such as 8, 500m or 32Gi")
        found[key] = quantity.canonical(amount)
    return found


def check_taints(value: Any, path: Path) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise DescriptionError(path, value, "a list of {key, value, effect}")
    taints = []
    for index, taint in enumerate(value):
        here = (*path, index)
        _only(_mapping(taint, here), ("key", "value", "effect", "timeAdded"), here)
        if not isinstance(taint.get("key"), str) or qualified_name(taint["key"]):
            raise DescriptionError((*here, "key"), taint.get("key"), "a qualified name such as nvidia.com/gpu")
        if taint.get("effect") not in _EFFECTS:
            raise DescriptionError((*here, "effect"), taint.get("effect"), " | ".join(_EFFECTS))
        taints.append({key: str(item) for key, item in taint.items()})
    return taints


def check_name(value: Any, path: Path) -> str:
    if not isinstance(value, str) or dns_subdomain(value):
        raise DescriptionError(path, value, "a name of lower-case letters, digits, '-' and '.'")
    return value


def _levels(value: Any) -> tuple[Level, ...]:
    if not isinstance(value, list) or not value:
        raise DescriptionError(
            ("levels",), value, "a list of {name, label, count}, broad to narrow, ending with the node"
        )
    if len(value) > MAX_LEVELS:
        raise DescriptionError(("levels",), len(value), f"at most {MAX_LEVELS} levels")
    for index, entry in enumerate(value):
        _only(_mapping(entry, ("levels", index)), _LEVEL_FIELDS, ("levels", index))
    names = [check_name(entry.get("name"), ("levels", index, "name")) for index, entry in enumerate(value)]
    _unique(names, "name")
    initials = [name[0] for name in names]
    shorts = initials if len(set(initials)) == len(initials) else names
    levels = tuple(
        Level(
            names[index], _label(entry, index, len(value)), _short(entry, index, shorts[index]), _counts(entry, index)
        )
        for index, entry in enumerate(value)
    )
    _unique([level.label for level in levels], "label")
    return levels


def _unique(values: list[str], field: str) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise DescriptionError(("levels", index, field), value, f"a {field} that no other level has")


def _label(entry: Mapping[str, Any], index: int, count: int) -> str:
    label = entry.get("label", HOSTNAME_LABEL if index == count - 1 else None)
    if not isinstance(label, str) or qualified_name(label):
        raise DescriptionError(("levels", index, "label"), label, "a label key such as topology.kubernetes.io/rack")
    return label


def _short(entry: Mapping[str, Any], index: int, otherwise: str) -> str:
    return check_name(entry.get("short", otherwise), ("levels", index, "short"))


def _counts(entry: Mapping[str, Any], index: int) -> tuple[int, ...]:
    count = entry.get("count")
    counts = count if isinstance(count, list) and count else [count]
    for number in counts:
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_NODES:
            raise DescriptionError(
                ("levels", index, "count"), count, "a number of 0 or more, or a list with one per parent"
            )
    return tuple(counts)


def _domains(prefix: tuple[str, ...], levels: tuple[Level, ...]) -> list[Domain]:
    domains = [Domain(prefix)]
    for index, level in enumerate(levels):
        counts = level.counts * len(domains) if len(level.counts) == 1 else level.counts
        if len(counts) != len(domains):
            raise DescriptionError(
                ("levels", index, "count"), list(counts), f"one number, or one for each of {len(domains)} parents"
            )
        if sum(counts) > MAX_NODES:
            raise DescriptionError(("levels", index, "count"), sum(counts), f"at most {MAX_NODES} domains in all")
        domains = list(_children(domains, level, counts))
    return domains


def _children(parents: list[Domain], level: Level, counts: tuple[int, ...]) -> Iterator[Domain]:
    width = len(str(max((*counts, 1)) - 1))
    for parent, count in zip(parents, counts, strict=True):
        for number in range(count):
            own = f"{level.short}{number:0{width}d}"
            yield Domain((*parent.path, f"{parent.name}-{own}" if parent.path else own))


def _prefix(document: Mapping[str, Any]) -> tuple[str, ...]:
    return (check_name(document["name"], ("name",)),) if "name" in document else ()


def _metadata(
    domain: Domain, levels: tuple[Level, ...], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    places = _places(domain, levels)
    metadata: dict[str, Any] = {
        "name": domain.name,
        "labels": {
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            HOSTNAME_LABEL: domain.name,
            **{level.label: places[level.name] for level in levels},
            **{key: _fill(text, places) for key, text in labels.items()},
        },
    }
    if annotations:
        metadata["annotations"] = {key: _fill(text, places) for key, text in annotations.items()}
    return metadata


def _places(domain: Domain, levels: tuple[Level, ...]) -> dict[str, str]:
    return dict(zip((level.name for level in levels), domain.path[-len(levels) :], strict=True))


def _fill(text: str, places: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: places[match[1]], text)


def _templates(document: Mapping[str, Any], field: str, levels: tuple[Level, ...]) -> dict[str, str]:
    known = [level.name for level in levels]
    texts: dict[str, str] = {}
    for key, value in _mapping(document.get(field, {}), (field,)).items():
        if not isinstance(key, str) or qualified_name(key):
            raise DescriptionError((field, str(key)), key, "a qualified name such as example.com/site")
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise DescriptionError((field, key), value, "a string")
        for name in _PLACEHOLDER.findall(str(value)):
            if name not in known:
                raise DescriptionError(
                    (field, key), "{" + name + "}", "one of " + ", ".join("{" + level + "}" for level in known)
                )
        texts[key] = str(value)
    return texts


def _check_labels(
    document: Mapping[str, Any], labels: Mapping[str, str], levels: tuple[Level, ...], domains: list[Domain]
) -> None:
    """Check the names and labels of the last node only: it has the longest ones."""
    for domain in domains[-1:]:
        check_name(domain.name, ("name",) if "name" in document else ("levels",))
        places = _places(domain, levels)
        filled = {("labels", key): _fill(text, places) for key, text in labels.items()}
        filled |= {("levels", level.name): places[level.name] for level in levels}
        for path, value in filled.items():
            if label_value(value):
                raise DescriptionError(path, value, "a label value: at most 63 letters, digits, '-', '_' and '.'")


def _check_size(parts: Iterable[Mapping[str, str]], levels: tuple[Level, ...], domains: list[Domain]) -> None:
    """The expanded nodes may be no larger than a file that lists them; the size is estimated from the last node."""
    for domain in domains[-1:]:
        places = _places(domain, levels)
        size = sum(len(key) + len(_fill(text, places)) for part in parts for key, text in part.items())
        if size * len(domains) > INVENTORY.bytes:
            found = f"{size} characters of labels, annotations and resources on each of {len(domains)} nodes"
            raise DescriptionError((), found, f"{INVENTORY.size} in all")


def _flag(value: Any, path: Path) -> bool:
    if not isinstance(value, bool):
        raise DescriptionError(path, value, "true | false")
    return value


def _mapping(value: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DescriptionError(path, value, "a mapping")
    return value


def _only(value: Mapping[str, Any], fields: tuple[str, ...], path: Path) -> None:
    for key in value:
        if key not in fields:
            raise DescriptionError((*path, str(key)), key, "one of " + ", ".join(fields))


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."


DEFAULT_NODES = """\
# Sixteen nodes with eight GPUs each: two blocks of two racks of four.
levels:
  - {name: zone, label: topology.kubernetes.io/zone, count: 1}
  - {name: block, label: topology.kubernetes.io/block, count: 2}
  - {name: rack, label: topology.kubernetes.io/rack, count: 2}
  - {name: node, count: 4}
capacity: {cpu: 64, memory: 512Gi, pods: 110, nvidia.com/gpu: 8}
"""
"""The default cluster if none is described; also examples/nodes/laptop.yaml."""


class NodesError(ValueError):
    """A nodes file that cannot be used; the message names file, line and field."""


def load_nodes(source: FilePath | str | None = None) -> list[dict[str, Any]]:
    """Node manifests from a file (a path), from text, or, given nothing, the default sixteen."""
    if source is None:
        return parse_nodes(DEFAULT_NODES, "default nodes")
    if isinstance(source, str):
        return parse_nodes(source, "text")
    try:
        with source.open("rb") as stream:
            body = read_bounded(stream, str(source), INVENTORY)
    except OSError as error:
        raise NodesError(f"{source}: cannot be read: {error.strerror or error}") from error
    except DocumentError as error:
        raise NodesError(str(error)) from error
    return parse_nodes(body, str(source))


def parse_nodes(text: bytes | str, where: str) -> list[dict[str, Any]]:
    """Every document of the text, expanded; names are unique over all of them."""
    nodes: list[dict[str, Any]] = []
    origin: dict[str, int] = {}
    for index, document in enumerate(_documents(text, where)):
        try:
            found = _nodes(document)
        except DescriptionError as wrong:
            raise NodesError(f"{_place(text, where, index, wrong.path)}: {wrong}") from None
        for node in found:
            name = node["metadata"]["name"]
            if name in origin:
                first = f"document {origin[name] + 1}"
                raise NodesError(f"{_place(text, where, index, ())}: node {name!r} is described already, in {first}")
            origin[name] = index
        nodes += found
    if not nodes:
        raise NodesError(f"{where}: found no nodes, expected v1 Nodes or a description with levels")
    return nodes


def _documents(text: bytes | str, where: str) -> list[Any]:
    try:
        return read_documents(text, where, INVENTORY)
    except DocumentError as error:
        raise NodesError(str(error)) from error


def _nodes(document: Any) -> list[dict[str, Any]]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise DescriptionError((), document, "a mapping: a v1 Node, or a description with levels")
    match document.get("kind"):
        case "Node":
            return [_node(document, ())]
        case "List" | "NodeList":
            return list(_items(document))
        case None:
            return expand(document)
        case other:
            raise DescriptionError(("kind",), other, "Node | List | NodeList, or no kind for a description with levels")


def _items(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    items = document.get("items")
    if not isinstance(items, list):
        raise DescriptionError(("items",), items, "a list of v1 Nodes")
    for index, item in enumerate(items):
        if not isinstance(item, dict) or item.get("kind", "Node") != "Node":
            raise DescriptionError(("items", index), item, "a v1 Node")
        yield _node(item, ("items", index))


def _node(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """A v1 Node with the defaults of every node filled in."""
    if document.get("apiVersion", "v1") != "v1":
        raise DescriptionError((*path, "apiVersion"), document["apiVersion"], "v1")
    metadata = _part(document, "metadata", path)
    spec = _part(document, "spec", path)
    status = _part(document, "status", path)
    name = check_name(metadata.get("name"), (*path, "metadata", "name"))
    check_taints(spec.get("taints") or [], (*path, "spec", "taints"))
    capacity = {**DEFAULT_CAPACITY, **quantities(status.get("capacity") or {}, (*path, "status", "capacity"))}
    allocatable = quantities(status.get("allocatable") or {}, (*path, "status", "allocatable"))
    kept = {key: metadata[key] for key in ("name", "annotations") if metadata.get(key)}
    labels = {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux", **(metadata.get("labels") or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**kept, "labels": labels},
        "spec": spec,
        "status": {**status, "capacity": capacity, "allocatable": {**capacity, **allocatable}},
    }


def _part(document: dict[str, Any], field: str, path: Path) -> dict[str, Any]:
    part = document.get(field) or {}
    if not isinstance(part, dict):
        raise DescriptionError((*path, field), part, "a mapping")
    return part


def _place(text: bytes | str, where: str, index: int, path: Path) -> str:
    """The file with the line of a field, or of its innermost existing parent."""
    body = text.encode() if isinstance(text, str) else text
    line = line_of(body, path, index)
    return where if line is None else f"{where}:{line}"
