"""The functions that rules may call, with the types they take and give; `any` takes everything."""

from __future__ import annotations

from spinney.serve.apiserver.schema.cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
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
