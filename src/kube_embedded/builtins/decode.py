"""Bring a built-in object into the form in which Kubernetes keeps it, and say what does not fit its Go type.

One walk checks types, spells quantities and times canonically, drops nulls, unknown fields and the empty values that Go
leaves out, and adds the empty values that Go always writes. It never looks at meaning: that is validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.builtins import scalars, snapshot
from kube_embedded.builtins.scalars import INT_OR_STRING, TypeMismatch
from kube_embedded.schema.model import Raw

Walk = Callable[[Any], Any]
Rewalk = Callable[[Any, Any], Any]
"""A walk over a changed copy: what it shares with the original, which has been walked before, is left as it is."""
Table = dict[str, tuple[type | None, Walk, bool]]
Always = list[tuple[str, Callable[[], Any]]]

_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_LEAVES: dict[str, scalars.Leaf] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": scalars.QUANTITY,
    _META + "Time": scalars.TIME,
    _META + "MicroTime": scalars.MICRO_TIME,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": scalars.INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": scalars.ANY,
    _META + "FieldsV1": scalars.ANY,
}


@dataclass(slots=True, eq=False)
class Node:
    """One type: its fast walk, and what the slow walk needs to say what is wrong."""

    shape: str  # struct | list | map | leaf
    walk: Walk
    leaf: scalars.Leaf = scalars.ANY
    fields: dict[str, Field] = field(default_factory=dict)
    item: Node | None = None
    struct: str = ""
    rewalk: Rewalk | None = None  # of a struct

    def zero(self) -> Any:
        """What Go writes for a value that was never set."""
        match self.shape:
            case "struct":
                return self.walk({})
            case "leaf":
                return self.leaf.zero
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Field:
    node: Node
    go: str  # the Go type, for messages
    drop_empty: bool
    embedded: str = ""  # the embedded Go struct that really holds the field


@dataclass(frozen=True, slots=True)
class Findings:
    """What a walk found: type errors (the first is what Kubernetes reports) and paths of unknown fields."""

    errors: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


_NOTHING = Findings()


def conform(obj: Object, component: str, original: Object | None = None) -> Findings:
    """Rewrite `obj` in place as its component's Go type would keep it.

    With type errors the object is left as it was. Unknown fields are dropped and named. What `obj` shares with an
    `original` that conforms is not looked at.
    """
    node = node_of(component)
    try:
        shaped = node.walk(obj) if original is None or node.rewalk is None else node.rewalk(obj, original)
        findings = _NOTHING
    except scalars.TypeMismatch:
        shaped, findings = describe(obj, node)
    if not findings.errors:
        obj.clear()
        obj.update(shaped)
    return findings


def refusal(findings: Findings, version: str, kind: str, strict: bool) -> ApiError | None:
    """The 400 that Kubernetes answers for what was found, or None when the object may pass."""
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    if findings.errors:
        return bad_request(prefix + findings.errors[0])
    if strict and findings.unknown:
        listed = ", ".join(f'unknown field "{path}"' for path in findings.unknown)
        return bad_request(f"{prefix}strict decoding error: {listed}")
    return None


_NODES: dict[str, Node] = {}


def node_of(component: str) -> Node:
    """The compiled walk of a component."""
    node = _NODES.get(component)
    if node is None:
        node = _compile_component(component)
    return node


def _compile_component(component: str) -> Node:
    leaf = _LEAVES.get(component)
    if leaf is not None:
        return _leaf(leaf)
    raw = snapshot.components()[component]
    if "properties" not in raw and raw.get("type") != "object":
        return _compile(raw)
    table: Table = {}
    always: Always = []
    node = Node("struct", _struct_walk(table, always), struct=component.rpartition(".")[2])
    node.rewalk = _struct_rewalk(node, table, always)
    _NODES[component] = node
    for name, described in raw.get("properties", {}).items():
        _add_field(node, name, described, snapshot.go_fields(component).get(name, ("string", "o", 0)), table, always)
    return node


def _add_field(
    node: Node,
    name: str,
    described: Raw,
    go: snapshot.GoField,
    table: Table,
    always: Always,
) -> None:
    kind, options, number = go
    value = _compile(described)
    pointer = kind.startswith("*")
    is_struct = value.shape == "struct" or (value.shape == "leaf" and value.leaf.struct)
    drop_empty = "o" in options and not pointer and not is_struct
    field_ = Field(value, kind.removeprefix("*"), drop_empty, number[2] if isinstance(number, list) else "")
    node.fields[name] = field_
    walk = value.walk
    if value.shape in ("list", "map") and "o" not in options and not pointer:
        walk = _empty_as_null(walk)
    table[name] = (value.leaf.exact if value.shape == "leaf" else None, walk, drop_empty)
    if "z" in options:
        return
    if "o" not in options and pointer:
        always.append((name, lambda: None))
    elif "o" not in options or (is_struct and not pointer):
        always.append((name, value.zero))


def _empty_as_null(walk: Walk) -> Walk:
    """A list or map that is always written is null when nothing is in it: storage does not tell the two apart."""
    return lambda value: walk(value) or None


def _compile(raw: Raw) -> Node:
    reference = raw.get("$ref") or next((one.get("$ref") for one in raw.get("allOf", ())), None)
    if reference:
        return node_of(reference.removeprefix(_REF))
    match raw.get("type"):
        case "array":
            item = _compile(raw["items"])
            return Node("list", _list_walk(item), item=item)
        case "object" if "additionalProperties" in raw:
            item = _compile(raw["additionalProperties"])
            return Node("map", _map_walk(item), item=item)
        case "object":
            return Node("struct", _struct_walk({}, []))
        case kind:
            return _leaf(scalars.leaf(kind, raw.get("format", "")))


@cache
def _leaf(leaf: scalars.Leaf) -> Node:
    return Node("leaf", leaf.walk, leaf)


def _struct_walk(table: Table, always: Always) -> Walk:
    misfit, entry_of = scalars.TypeMismatch, table.get

    def walk(value: Any) -> Any:
        if value.__class__ is not dict:
            raise misfit
        shaped = {}
        for name, one in value.items():
            entry = entry_of(name)
            if entry is None:
                raise misfit
            exact, walk_one, drop_empty = entry
            if exact is not None:
                if one.__class__ is not exact:
                    if one is None:
                        continue
                    raise misfit
            elif one is None:
                continue
            else:
                one = walk_one(one)
            if one or not drop_empty:
                shaped[name] = one
        for name, zero in always:
            if name not in shaped:
                shaped[name] = zero()
        return shaped

    return walk


def _struct_rewalk(node: Node, table: Table, always: Always) -> Rewalk:
    misfit, walk = scalars.TypeMismatch, node.walk

    def rewalk(value: Any, original: Any) -> Any:
        if value.__class__ is not dict or original.__class__ is not dict:
            return walk(value)
        kept = {name: one for name, one in value.items() if name in table and original.get(name) is one}
        shaped = {**kept, **walk_changed({name: one for name, one in value.items() if name not in kept}, original)}
        for name, zero in always:
            if name not in shaped:
                shaped[name] = zero()
        return shaped

    def walk_changed(changed: dict[str, Any], original: dict[str, Any]) -> dict[str, Any]:
        shaped = {}
        for name, one in changed.items():
            if name not in table:
                raise misfit
            if one is None:
                continue
            exact, walk_one, drop_empty = table[name]
            again = node.fields[name].node.rewalk
            if exact is not None and one.__class__ is not exact:
                raise misfit
            if exact is None:
                one = walk_one(one) if again is None else again(one, original.get(name))
            if one or not drop_empty:
                shaped[name] = one
        return shaped

    return rewalk


def _list_walk(item: Node) -> Walk:
    exact, walk_one, misfit = item.leaf.exact if item.shape == "leaf" else None, item.walk, scalars.TypeMismatch

    def walk_exact(value: Any) -> Any:
        if value.__class__ is not list:
            raise misfit
        for one in value:
            if one.__class__ is not exact:
                raise misfit
        return value

    def walk(value: Any) -> Any:
        if value.__class__ is not list:
            raise misfit
        return [walk_one(one) for one in value]

    return walk if exact is None else walk_exact


def _map_walk(item: Node) -> Walk:
    exact, walk_one, misfit = item.leaf.exact if item.shape == "leaf" else None, item.walk, scalars.TypeMismatch

    def walk_exact(value: Any) -> Any:
        if value.__class__ is not dict:
            raise misfit
        for one in value.values():
            if one.__class__ is not exact:
                raise misfit
        return value

    def walk(value: Any) -> Any:
        if value.__class__ is not dict:
            raise misfit
        return {name: walk_one(one) for name, one in value.items()}

    return walk if exact is None else walk_exact


# What does not fit, told in full: asked only after the fast walk stumbled, and it shapes the object the same way.


@dataclass(slots=True)
class _Place:
    """Where the walk is: the path with indexes for unknown fields, and the one that Go prints."""

    path: str = ""
    go_path: str = ""
    struct: str = ""
    go: str = ""


@dataclass(slots=True)
class _Log:
    errors: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def describe(obj: Any, node: Node) -> tuple[Any, Findings]:
    """The shaped object and everything that was found on the way."""
    log = _Log()
    shaped = _visit(obj, node, _Place(struct=node.struct), log)
    return shaped, Findings(tuple(log.errors), tuple(log.unknown))


def _visit(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if value is None:
        return node.zero()
    match node.shape:
        case "struct":
            return _visit_struct(value, node, place, log)
        case "list":
            return _visit_list(value, node, place, log)
        case "map":
            return _visit_map(value, node, place, log)
        case _:
            return _visit_leaf(value, node, place, log)


def _visit_struct(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if not isinstance(value, dict):
        return _mismatch(value, place, log)
    shaped: dict[str, Any] = {}
    for name, one in value.items():
        known = node.fields.get(name)
        path = f"{place.path}.{name}" if place.path else name
        if known is None:
            log.unknown.append(path)
        elif one is not None:
            step = f"{known.embedded}.{name}" if known.embedded else name
            go_path = f"{place.go_path}.{step}" if place.go_path else step
            inner = _visit(one, known.node, _Place(path, go_path, node.struct, known.go), log)
            if inner or not known.drop_empty:
                shaped[name] = inner
    return {**node.walk({}), **shaped}


def _visit_list(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if not isinstance(value, list) or node.item is None:
        return _mismatch(value, place, log)
    go = place.go.removeprefix("[]")
    return [
        _visit(one, node.item, _Place(f"{place.path}[{index}]", place.go_path, place.struct, go), log)
        for index, one in enumerate(value)
    ]


def _visit_map(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    if not isinstance(value, dict) or node.item is None:
        return _mismatch(value, place, log)
    go = re.sub(r"^map\[[\w.]+\]", "", place.go)
    return {
        name: _visit(one, node.item, _Place(f"{place.path}.{name}", place.go_path, place.struct, go), log)
        for name, one in value.items()
    }


def _visit_leaf(value: Any, node: Node, place: _Place, log: _Log) -> Any:
    try:
        return node.leaf.walk(value)
    except TypeMismatch as misfit:
        if misfit.args:
            log.errors.append(str(misfit))
            return None
        go = node.leaf.go if node.leaf.own_go else place.go
        with_digits = isinstance(value, (int, float)) and (node.leaf is INT_OR_STRING or node.leaf.go.startswith("int"))
        return _mismatch(value, _Place(place.path, place.go_path, place.struct, go), log, with_digits)


def _mismatch(value: Any, place: _Place, log: _Log, with_digits: bool = False) -> None:
    words = _json_type(value)
    if with_digits and words == "number":
        words = f"number {value}"
    if place.go_path:
        target = f"Go struct field {place.struct}.{place.go_path} of type {place.go}"
    else:
        target = f"Go value of type v1.{place.struct}"
    log.errors.append(f"json: cannot unmarshal {words} into {target}")


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
