"""Type check of an expression whose variables have declared types, with the words of the CEL compiler.

The functions that rules may call are listed with the types they take and give; `any` takes everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kube_apimachinery import duration
from kube_embedded.schema import formats
from kube_embedded.schema.cel.ast import Node, Tree
from kube_embedded.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    RESERVED,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
)

Signature = tuple[tuple[str, ...], Type]

QUANTITY, SEMVER = Type("kubernetes.Quantity"), Type("kubernetes.Semver")
URL, IP, CIDR, FORMAT = Type("kubernetes.URL"), Type("net.IP"), Type("net.CIDR"), Type("kubernetes.NamedFormat")
_STRINGS = list_of(STRING)


def _each(results: Type, *parameters: str) -> tuple[Signature, ...]:
    return tuple((tuple(one.split()), results) for one in parameters)


_COMPARABLE = (f"{QUANTITY.name} {QUANTITY.name}", f"{SEMVER.name} {SEMVER.name}")
_DATE_PARTS = ("FullYear", "Month", "DayOfYear", "Date", "DayOfMonth", "DayOfWeek", "Hours", "Minutes", "Seconds")
FORMATS = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "labelValue"),
    *("dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix"),
    *("uri", "uuid", "byte", "date", "datetime"),
)

SIGNATURES: dict[str, tuple[Signature, ...]] = {
    "size": _each(INT, "string", "bytes", "list", "map"),
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches"), _each(BOOL, "string string")),
    "containsIP": _each(BOOL, f"{CIDR.name} {IP.name}", f"{CIDR.name} string"),
    "containsCIDR": _each(BOOL, f"{CIDR.name} {CIDR.name}", f"{CIDR.name} string"),
    "charAt": _each(STRING, "string int"),
    **dict.fromkeys(("indexOf", "lastIndexOf"), _each(INT, "string string", "string string int", "list any")),
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim"), _each(STRING, "string")),
    "replace": _each(STRING, "string string string", "string string string int"),
    "split": _each(_STRINGS, "string string", "string string int"),
    "substring": _each(STRING, "string int", "string int int"),
    "join": _each(STRING, "list", "list string"),
    "format": _each(STRING, "string list"),
    "isSorted": _each(BOOL, "list"),
    "find": _each(STRING, "string string"),
    "findAll": _each(_STRINGS, "string string", "string string int"),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _each(BOOL, "list list")),
    "url": _each(URL, "string"),
    **dict.fromkeys(("isURL", "isIP", "isCIDR", "isQuantity"), _each(BOOL, "string")),
    **dict.fromkeys(("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"), _each(STRING, URL.name)),
    "getQuery": _each(map_of(STRING, _STRINGS), URL.name),
    "quantity": _each(QUANTITY, "string"),
    "isInteger": _each(BOOL, QUANTITY.name),
    "asInteger": _each(INT, QUANTITY.name),
    "asApproximateFloat": _each(DOUBLE, QUANTITY.name),
    "sign": _each(INT, QUANTITY.name),
    **dict.fromkeys(("add", "sub"), _each(QUANTITY, f"{QUANTITY.name} {QUANTITY.name}", f"{QUANTITY.name} int")),
    **dict.fromkeys(("isGreaterThan", "isLessThan"), _each(BOOL, *_COMPARABLE)),
    "compareTo": _each(INT, *_COMPARABLE),
    "semver": _each(SEMVER, "string", "string bool"),
    "isSemver": _each(BOOL, "string", "string bool"),
    **dict.fromkeys(("major", "minor", "patch"), _each(INT, SEMVER.name)),
    "ip": _each(IP, "string") + _each(IP, CIDR.name),
    "cidr": _each(CIDR, "string"),
    "ip.isCanonical": _each(BOOL, "string"),
    "family": _each(INT, IP.name),
    **dict.fromkeys(
        ("isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast"),
        _each(BOOL, IP.name),
    ),
    "prefixLength": _each(INT, CIDR.name),
    "masked": _each(CIDR, CIDR.name),
    "format.named": _each(optional_of(FORMAT), "string"),
    **{f"format.{name}": _each(FORMAT, "") for name in FORMATS},
    "validate": _each(optional_of(_STRINGS), f"{FORMAT.name} string"),
    **{
        f"get{part}": _each(INT, "timestamp", "timestamp string", "duration") for part in (*_DATE_PARTS, "Milliseconds")
    },
    "int": _each(INT, "int", "uint", "double", "string", "timestamp"),
    "uint": _each(UINT, "int", "uint", "double", "string"),
    "double": _each(DOUBLE, "int", "uint", "double", "string"),
    "bool": _each(BOOL, "bool", "string"),
    "string": _each(
        STRING,
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "bytes",
        "timestamp",
        "duration",
        QUANTITY.name,
        IP.name,
        CIDR.name,
    ),
    "bytes": _each(BYTES, "bytes", "string"),
    "timestamp": _each(TIMESTAMP, "timestamp", "string", "int"),
    "duration": _each(DURATION, "duration", "string"),
    "reverse": ((("list",), DYN),),
    "flatten": ((("list",), DYN), (("list", "int"), DYN)),
    "lists.range": _each(list_of(INT), "int"),
}


_NUMERIC = frozenset({"int", "uint", "double"})
_ORDERED = _NUMERIC | {"bool", "string", "bytes", "timestamp", "duration"}
_NULLABLE = frozenset({"object", "timestamp", "duration", "dyn", "null_type", "optional_type", "type"})
_NAMESPACES = ("sets", "lists", "format", "ip", "optional")
_CONSTANTS = {"null": NULL, "bool": BOOL, "int": INT, "string": STRING}


class Mismatch(ValueError):
    """An expression that does not fit the types; says where."""

    def __init__(self, node: Node, words: str) -> None:
        super().__init__(words)
        self.node = node


Scope = Mapping[str, Type]


class Checker:
    """Infers the type of every node; `types` maps node ids to what was found."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.types: dict[int, Type] = {}

    def check(self, tree: Tree) -> Type:
        return self._infer(tree.root, self._scope)

    def _infer(self, node: Node, scope: Scope) -> Type:
        found = _RULES[node.kind](self, node, scope)
        self.types[node.id] = found
        if found.name in ("timestamp", "duration") and found.adapted:
            return TIMESTAMP if found.name == "timestamp" else DURATION
        return found

    def _const(self, node: Node, scope: Scope) -> Type:
        name = node.names[0]
        return _CONSTANTS.get(name, Type(name))

    def _ident(self, node: Node, scope: Scope) -> Type:
        return scope.get(node.names[0], DYN)

    def _select(self, node: Node, scope: Scope) -> Type:
        assert node.target is not None
        owner = self._infer(node.target, scope)
        found = self._field(node, owner)
        return BOOL if node.kind == "has" else found

    def _field(self, node: Node, owner: Type) -> Type:
        name = node.names[0]
        match owner.name:
            case "object":
                spelled = f"__{name}__" if name in RESERVED else name
                if spelled not in owner.fields:
                    raise Mismatch(node, f"undefined field '{name}'")
                return owner.fields[spelled]
            case "map":
                return owner.element or DYN
            case "optional_type":
                return optional_of(self._field(node, owner.element or DYN))
            case "dyn" | "null_type":
                return DYN
            case _ if owner.name.startswith("kubernetes."):
                return DYN
            case _:
                raise Mismatch(node, f"type '{owner}' does not support field selection")

    def _list(self, node: Node, scope: Scope) -> Type:
        elements = [self._infer(arg, scope) for arg in node.args]
        for element, arg in zip(elements, node.args, strict=True):
            if not fits(elements[0], element) and "null_type" not in (elements[0].name, element.name):
                raise Mismatch(arg, f"expected type '{elements[0]}' but found '{element}'")
        return list_of(_joined(elements))

    def _map(self, node: Node, scope: Scope) -> Type:
        parts = [self._infer(arg, scope) for arg in node.args]
        return map_of(_joined(parts[0::2]), _joined(parts[1::2]))

    def _struct(self, node: Node, scope: Scope) -> Type:
        return DYN

    def _comprehension(self, node: Node, scope: Scope) -> Type:
        ranged, start, condition, step, result = node.args
        first, second, accumulator = node.names
        over = self._infer(ranged, scope)
        if over.name not in ("list", "map", "dyn", "optional_type"):
            words = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            raise Mismatch(ranged, words)
        inner = dict(scope)
        keyed = over.name == "map"
        element = over.element or DYN
        if second:
            inner |= {first: over.key or DYN if keyed else INT if over.name == "list" else DYN, second: element}
        else:
            inner[first] = over.key or DYN if keyed else element
        inner[accumulator] = self._infer(start, scope)
        self._infer(condition, inner)
        inner[accumulator] = self._infer(step, inner)
        outer = {**scope, accumulator: inner[accumulator]}
        return self._infer(result, outer)

    def _call(self, node: Node, scope: Scope) -> Type:
        name = node.names[0]
        if name == "_?._":
            return self._optional_select(node, scope)
        receiver: tuple[Node, ...] = (node.target,) if node.target is not None else ()
        if node.target is not None and _is_namespace(node.target, scope):
            name, receiver = f"{node.target.names[0]}.{name}", ()
        if name == "format" and receiver and node.args and node.args[0].kind == "list":
            return self._format(node, scope)
        args = [self._infer(arg, scope) for arg in (*receiver, *node.args)]
        if (operator := _OPERATORS.get(name)) is not None:
            found = operator(args)
        elif name in SIGNATURES:
            found = _overload(name, args)
        else:
            return DYN
        if found is None:
            raise Mismatch(node, _no_overload(name, args, bool(receiver)))
        _check_literal(name, node)
        return found

    def _format(self, node: Node, scope: Scope) -> Type:
        """The one list whose elements may differ in type."""
        for part in (node.target, *node.args[0].args):
            if part is not None:
                self._infer(part, scope)
        return STRING

    def _optional_select(self, node: Node, scope: Scope) -> Type:
        owner = self._infer(node.args[0], scope)
        inside = owner.element or DYN if owner.name == "optional_type" else owner
        field = Node(node.id, "select", (str(node.args[1].value),))
        return optional_of(self._field(field, inside))


_RULES: dict[str, Callable[[Checker, Node, Scope], Type]] = {
    "const": Checker._const,
    "ident": Checker._ident,
    "select": Checker._select,
    "has": Checker._select,
    "list": Checker._list,
    "map": Checker._map,
    "struct": Checker._struct,
    "comprehension": Checker._comprehension,
    "call": Checker._call,
}


def _check_literal(name: str, node: Node) -> None:
    """Patterns and times that are written out must be right."""
    check = _LITERALS.get(name)
    last = node.args[-1] if node.args else None
    if check is None or last is None or last.kind != "const" or last.names != ("string",):
        return
    if not check(str(last.value)):
        raise Mismatch(last, f"invalid {name} argument")


def _is_pattern(text: str) -> bool:
    try:
        formats.matcher(text)
    except formats.BadPattern:
        return False
    return True


def _is_span(text: str) -> bool:
    try:
        duration.nanoseconds(text)
    except duration.DurationError:
        return False
    return True


_LITERALS: dict[str, Callable[[str], bool]] = {
    "matches": _is_pattern,
    "duration": _is_span,
    "timestamp": formats.is_date_time,
}


def _is_namespace(node: Node, scope: Scope) -> bool:
    return node.kind == "ident" and node.names[0] not in scope and node.names[0] in _NAMESPACES


def _joined(found: Sequence[Type]) -> Type:
    """The one type of all elements; dyn where there is none."""
    return found[0] if found and all(one.name == found[0].name for one in found) else DYN


def fits(left: Type, right: Type) -> bool:
    """Whether values of these types can be the same value, as far as a compiler can tell."""
    names = {left.name, right.name}
    if "dyn" in names:
        return True
    if "null_type" in names:
        return all(name in _NULLABLE or name.startswith("kubernetes.") for name in names)
    if left.name != right.name:
        return False
    if left.element is not None and right.element is not None and not fits(left.element, right.element):
        return False
    return left.key is None or right.key is None or fits(left.key, right.key)


def _equal(args: Sequence[Type]) -> Type | None:
    return BOOL if fits(args[0], args[1]) else None


def _compare(args: Sequence[Type]) -> Type | None:
    left, right = args
    if "dyn" in (left.name, right.name):
        return BOOL
    if left.name in _NUMERIC and right.name in _NUMERIC:
        return BOOL
    return BOOL if left.name == right.name and left.name in _ORDERED else None


def _add(args: Sequence[Type]) -> Type | None:
    left, right = args
    if "dyn" in (left.name, right.name):
        return left if right.name == "dyn" else right
    if {left.name, right.name} == {"timestamp", "duration"}:
        return TIMESTAMP
    if left.name == "list" and right.name == "list":
        if left.element is None or left.element.name == "dyn":
            return right
        return left if fits(left, right) else None
    return left if left.name == right.name and left.name in _NUMERIC | {"string", "bytes", "duration"} else None


def _subtract(args: Sequence[Type]) -> Type | None:
    left, right = args
    if left.name == "timestamp":
        return {"timestamp": DURATION, "duration": TIMESTAMP, "dyn": DYN}.get(right.name)
    return _arithmetic(args) if "duration" not in (left.name, right.name) else _add(args)


def _arithmetic(args: Sequence[Type]) -> Type | None:
    left, right = args
    if "dyn" in (left.name, right.name):
        return left if right.name == "dyn" else right
    return left if left.name == right.name and left.name in _NUMERIC else None


def _negate(args: Sequence[Type]) -> Type | None:
    return args[0] if args[0].name in ("int", "double", "dyn") else None


def _logic(args: Sequence[Type]) -> Type | None:
    return BOOL if all(arg.name in ("bool", "dyn") for arg in args) else None


def _choose(args: Sequence[Type]) -> Type | None:
    condition, left, right = args
    if condition.name not in ("bool", "dyn") or not fits(left, right):
        return None
    return right if left.name in ("dyn", "null_type") else left


def _contains(args: Sequence[Type]) -> Type | None:
    item, inside = args
    match inside.name:
        case "list":
            return BOOL if fits(item, inside.element or DYN) else None
        case "map":
            return BOOL if fits(item, inside.key or DYN) else None
        case "dyn":
            return BOOL
        case _:
            return None


def _index(args: Sequence[Type]) -> Type | None:
    owner, key = args
    match owner.name:
        case "list":
            return owner.element or DYN if key.name in ("int", "dyn") else None
        case "map":
            return owner.element or DYN if fits(key, owner.key or DYN) else None
        case "optional_type":
            inside = _index((owner.element or DYN, key))
            return optional_of(inside) if inside is not None else None
        case "dyn":
            return DYN
        case _:
            return None


def _optional_index(args: Sequence[Type]) -> Type | None:
    owner = args[0].element or DYN if args[0].name == "optional_type" else args[0]
    inside = _index((owner, args[1]))
    return optional_of(inside) if inside is not None else None


def _unwrap(args: Sequence[Type]) -> Type | None:
    return {"optional_type": args[0].element or DYN, "dyn": DYN}.get(args[0].name)


def _or_value(args: Sequence[Type]) -> Type | None:
    inside = _unwrap(args)
    if inside is None or not fits(inside, args[1]):
        return None
    return args[1] if inside.name == "dyn" else inside


def _same_list(args: Sequence[Type]) -> Type | None:
    return args[0] if args[0].name in ("list", "dyn") else None


def _element(args: Sequence[Type]) -> Type | None:
    return {"list": args[0].element or DYN, "dyn": DYN}.get(args[0].name)


def _maybe_element(args: Sequence[Type]) -> Type | None:
    inside = _element(args)
    return optional_of(inside) if inside is not None else None


_OPERATORS: dict[str, Callable[[Sequence[Type]], Type | None]] = {
    **dict.fromkeys(("_==_", "_!=_"), _equal),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compare),
    **dict.fromkeys(("_*_", "_/_", "_%_"), _arithmetic),
    **dict.fromkeys(("_&&_", "_||_", "!_", "@not_strictly_false"), _logic),
    **dict.fromkeys(("slice", "distinct", "sort"), _same_list),
    **dict.fromkeys(("min", "max", "sum"), _element),
    **dict.fromkeys(("first", "last"), _maybe_element),
    "_+_": _add,
    "_-_": _subtract,
    "-_": _negate,
    "_?_:_": _choose,
    "@in": _contains,
    "_[_]": _index,
    "_[?_]": _optional_index,
    "value": _unwrap,
    "orValue": _or_value,
    "hasValue": lambda args: BOOL if args[0].name in ("optional_type", "dyn") else None,
    "optional.of": lambda args: optional_of(args[0]),
    "optional.ofNonZeroValue": lambda args: optional_of(args[0]),
    "optional.none": lambda args: optional_of(DYN),
    "dyn": lambda args: DYN,
    "type": lambda args: TYPE,
}


def _overload(name: str, args: Sequence[Type]) -> Type | None:
    for parameters, result in SIGNATURES[name]:
        if len(parameters) == len(args) and all(map(_takes, parameters, args)):
            return result
    return None


def _takes(parameter: str, given: Type) -> bool:
    return parameter == "any" or given.name in ("dyn", parameter)


def _no_overload(name: str, args: Sequence[Type], member: bool) -> str:
    shown = [str(arg) for arg in args]
    applied = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
    return f"found no matching overload for '{name}' applied to '{applied}'"
