"""Kubernetes' functions for CEL: quantities, versions, addresses, URLs, formats, regular expressions, lists.

Values that CEL has no type for (a quantity, an address) are maps with the one key that names their type.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kube_apimachinery import name_validation, quantity
from kube_embedded.schema import formats

Opaque = dict[str, Any]
_QUANTITY, _SEMVER, _IP, _CIDR, _URL, _FORMAT = "quantity", "semver", "ip", "cidr", "url", "format"
_SEPARATORS, _MOST_DIGITS = re.compile(r"[.+-]"), 19
"""A number of a version is read as 64 bits."""
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
    r"(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


class LibraryError(ValueError):
    """A call that fails: the expression fails with these words."""


def make_quantity(text: str) -> Opaque:
    try:
        return {_QUANTITY: quantity.canonical(text)}
    except quantity.QuantityError as error:
        raise LibraryError(str(error).partition(", found ")[0]) from None


def _amount(value: Opaque) -> Fraction:
    text = value[_QUANTITY]
    found = re.fullmatch(r"([+-]?[0-9.]+)([a-zA-Z]*|[eE][-+]?\d+)", text)
    if found is None or len(text) > _LONGEST_QUANTITY or len(found[2]) > _LONGEST_EXPONENT:
        raise LibraryError(f"unable to parse quantity {text[:_LONGEST_QUANTITY]}")
    number, suffix = Fraction(found[1]), found[2]
    if suffix in _SCALES:
        return number * _SCALES[suffix]
    return number * Fraction(10) ** int(suffix[1:])


_LONGEST_QUANTITY = 1024
_LONGEST_EXPONENT = len("e-9999")  # arithmetic beyond it would fill memory
_SCALES = {suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate(["n", "u", "m", "", "k", "M", "G"], -3)}
_SCALES |= {"T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18)}
_SCALES |= {f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)}


def _as_integer(value: Opaque) -> int:
    amount = _amount(value)
    if amount.denominator != 1 or abs(amount) >= 2**63:
        raise LibraryError("cannot convert value to integer")
    return int(amount)


def _is_integer(value: Opaque) -> bool:
    amount = _amount(value)
    return amount.denominator == 1 and abs(amount) < 2**63


def _sum_of(left: Opaque, right: Opaque | int, sign: int) -> Opaque:
    other = Fraction(right) if isinstance(right, int) else _amount(right)
    total = _amount(left) + sign * other
    nanos = total * 10**9
    return make_quantity(f"{nanos.numerator // nanos.denominator}n")


def _compare(left: Opaque, right: Opaque) -> int:
    if left.keys() != right.keys():
        raise LibraryError("no such overload")
    if _QUANTITY in left:
        return quantity.compare(left[_QUANTITY], right[_QUANTITY])
    if _SEMVER in left:
        return _compare_versions(left, right)
    raise LibraryError("no such overload")


def _version(text: str, normalize: bool = False) -> Opaque:
    if any(part.isdecimal() and len(part) > _MOST_DIGITS for part in _SEPARATORS.split(text.removeprefix("v"))):
        raise LibraryError(f"invalid semantic version: {text}")
    if normalize:
        text = text.removeprefix("v")
        core, dash, rest = text.partition("-")
        parts = [str(int(part)) if part.isdecimal() else part for part in core.split(".")]
        text = ".".join([*parts, *["0"] * (3 - len(parts))]) + dash + rest
    found = _VERSION.fullmatch(text)
    if found is None:
        raise LibraryError(f"invalid semantic version: {text}")
    return {_SEMVER: [int(found[1]), int(found[2]), int(found[3]), found[4] or ""]}


def _compare_versions(left: Opaque, right: Opaque) -> int:
    mine, other = left[_SEMVER], right[_SEMVER]
    if mine[:3] != other[:3]:
        return -1 if mine[:3] < other[:3] else 1
    return _compare_releases(mine[3], other[3])


def _compare_releases(left: str, right: str) -> int:
    """A pre-release comes before its release; its parts compare as numbers where they are."""
    if left == right:
        return 0
    if not left or not right:
        return 1 if not left else -1

    def keyed(text: str) -> list[tuple[int, int, str]]:
        return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in text.split(".")]

    return -1 if keyed(left) < keyed(right) else 1


def _address(text: str) -> Any:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise LibraryError(f'IP Address "{text}" parse error during conversion from string') from None
    if "%" in text or (found.version == 6 and found.ipv4_mapped is not None):
        raise LibraryError(f'IP Address "{text}" parse error during conversion from string')
    return found


def _network(text: str) -> Any:
    address, slash, bits = text.partition("/")
    if not slash or len(bits) > 3 or not bits.isdecimal() or str(int(bits)) != bits:
        raise LibraryError(f'network address parse error during conversion from string: "{text}"')
    try:
        _address(address)
        return ipaddress.ip_interface(text)
    except ValueError:
        raise LibraryError(f'network address parse error during conversion from string: "{text}"') from None


def _succeeds(attempt: Callable[[str], Any], text: str) -> bool:
    try:
        attempt(text)
    except LibraryError:
        return False
    return True


def _url(text: str) -> Opaque:
    if not formats.string_check("uri")(text):  # type: ignore[misc]
        raise LibraryError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return {_URL: text}


def _port(value: Opaque) -> str:
    port = urlsplit(value[_URL]).port
    return "" if port is None else str(port)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [one.group() for one in _pattern(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found.group() if found else ""


def _pattern(pattern: str) -> formats.Pattern:
    try:
        return formats.compile_pattern(pattern)
    except formats.BadPattern as error:
        raise LibraryError(f"Illegal regex: {error}") from None


def _is_sorted(values: list[Any]) -> bool:
    return all(_ordered(left, right) <= 0 for left, right in pairwise(values))


def _ordered(left: Any, right: Any) -> int:
    try:
        return int(left > right) - int(left < right)
    except TypeError:
        raise LibraryError("no such overload") from None


def _extreme(values: list[Any], sign: int) -> Any:
    if not values:
        raise LibraryError(f"{'max' if sign > 0 else 'min'} called on empty list")
    return max(values, key=cmp_to_key(lambda left, right: sign * _ordered(left, right)))


def _sum(values: list[Any]) -> Any:
    total: Any = 0
    for value in values:
        total = total + value
    return total


def _index_of(values: list[Any], item: Any, last: bool = False) -> int:
    places = [index for index, value in enumerate(values) if value == item]
    return (places[-1] if last else places[0]) if places else -1


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") else text)


def _by_format(name: str, words: str) -> Callable[[str], list[str]]:
    check = formats.string_check(name)
    return lambda text: [] if check is not None and check(text) else [words]


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": name_validation.dns_label,
    "dns1123Subdomain": name_validation.dns_subdomain,
    "dns1035Label": name_validation.dns_1035_label,
    "qualifiedName": name_validation.qualified_name,
    "labelValue": name_validation.label_value,
    "dns1123LabelPrefix": _prefix(name_validation.dns_label),
    "dns1123SubdomainPrefix": _prefix(name_validation.dns_subdomain),
    "dns1035LabelPrefix": _prefix(name_validation.dns_1035_label),
    "uri": _by_format("uri", "invalid URI for request"),
    "uuid": _by_format("uuid", "does not match the UUID format"),
    "byte": _by_format("byte", "invalid base64"),
    "date": _by_format("date", "invalid date"),
    "datetime": _by_format("datetime", "invalid datetime"),
}


def format_problems(name: Opaque, text: str) -> list[str]:
    """What is wrong with a text by a named format; the rewritten expression makes an optional of it."""
    return _FORMATS[name[_FORMAT]](text)


def named_format(name: str) -> list[Opaque]:
    """The format of this name in a list, or an empty list."""
    return [{_FORMAT: name}] if name in _FORMATS else []


def extension(cel: Any) -> Any:
    """All of it as an extension of the CEL library, whose module is given."""
    formats: dict[str, list[Overload]] = {
        f"format.{name}": [("", "any", _constant({_FORMAT: name}))] for name in _FORMATS
    }
    table = _QUANTITIES | _VERSIONS | _URLS | _TEXTS_AND_LISTS | _addresses() | formats
    return cel.CelExtension("kubernetes", [_function(cel, name, *overloads) for name, overloads in table.items()])


def _function(cel: Any, name: str, *overloads: Overload) -> Any:
    kinds = cel.Type
    types = {
        "list": kinds.List(kinds.DYN),
        "any": kinds.DYN,
        "map": kinds.MAP,
        **{one: getattr(kinds, one.upper()) for one in ("string", "int", "bool", "double")},
    }
    made = []
    for index, (parameters, result, implementation) in enumerate(overloads):
        member = parameters.startswith(".")
        given = [types[one] for one in parameters.removeprefix(".").split()]
        identity = f"kubernetes_{name.replace('.', '_')}_{index}"
        made.append(cel.Overload(identity, types[result], given, member, implementation))
    return cel.FunctionDecl(name, made)


Overload = tuple[str, str, Callable[..., Any]]
"""Parameters (with a leading point where the first is the receiver), result, function."""

_QUANTITIES: dict[str, list[Overload]] = {
    "quantity": [("string", "any", make_quantity)],
    "isQuantity": [("string", "bool", quantity.is_valid)],
    "isInteger": [(".map", "bool", _is_integer)],
    "asInteger": [(".map", "int", _as_integer)],
    "asApproximateFloat": [(".map", "double", lambda value: float(_amount(value)))],
    "sign": [("map", "int", lambda value: (_amount(value) > 0) - (_amount(value) < 0))],
    "add": [(f".map {other}", "any", lambda left, right: _sum_of(left, right, 1)) for other in ("map", "int")],
    "sub": [(f".map {other}", "any", lambda left, right: _sum_of(left, right, -1)) for other in ("map", "int")],
    "compareTo": [(".map map", "int", _compare)],
    "isGreaterThan": [(".map map", "bool", lambda left, right: _compare(left, right) > 0)],
    "isLessThan": [(".map map", "bool", lambda left, right: _compare(left, right) < 0)],
}
_VERSIONS: dict[str, list[Overload]] = {
    "semver": [("string", "any", _version), ("string bool", "any", _version)],
    "isSemver": [
        ("string", "bool", lambda text: _succeeds(_version, text)),
        ("string bool", "bool", lambda text, loose: _succeeds(lambda one: _version(one, loose), text)),
    ],
    "major": [(".map", "int", lambda value: int(value[_SEMVER][0]))],
    "minor": [(".map", "int", lambda value: int(value[_SEMVER][1]))],
    "patch": [(".map", "int", lambda value: int(value[_SEMVER][2]))],
}
_URLS: dict[str, list[Overload]] = {
    "isURL": [("string", "bool", lambda text: _succeeds(_url, text))],
    "url": [("string", "any", _url)],
    "getQuery": [(".map", "any", lambda value: parse_qs(urlsplit(value[_URL]).query, keep_blank_values=True))],
    "getScheme": [(".map", "string", lambda value: urlsplit(value[_URL]).scheme)],
    "getHost": [(".map", "string", lambda value: urlsplit(value[_URL]).netloc.rpartition("@")[2])],
    "getHostname": [(".map", "string", lambda value: urlsplit(value[_URL]).hostname or "")],
    "getPort": [(".map", "string", _port)],
    "getEscapedPath": [(".map", "string", lambda value: urlsplit(value[_URL]).path)],
}
_TEXTS_AND_LISTS: dict[str, list[Overload]] = {
    "find": [(".string string", "string", _find)],
    "findAll": [(".string string", "list", _find_all), (".string string int", "list", _find_all)],
    "isSorted": [(".list", "bool", _is_sorted)],
    "sum": [(".list", "any", _sum)],
    "min": [(".list", "any", lambda values: _extreme(values, -1))],
    "max": [(".list", "any", lambda values: _extreme(values, 1))],
    "indexOf": [(".list any", "int", _index_of)],
    "lastIndexOf": [(".list any", "int", lambda values, item: _index_of(values, item, True))],
    "validate": [(".map string", "any", format_problems)],
    "format.named": [("string", "any", named_format)],
}


def _addresses() -> dict[str, list[Overload]]:
    questions: dict[str, list[Overload]] = {
        name: [(".map", "bool", _address_question(question))] for name, question in _ADDRESS_QUESTIONS.items()
    }
    return questions | {
        "isIP": [("string", "bool", lambda text: _succeeds(_address, text))],
        "ip": [
            ("string", "any", lambda text: {_IP: str(_address(text))}),
            (".map", "any", lambda value: {_IP: str(_network(value[_CIDR]).ip)}),
        ],
        "ip.isCanonical": [("string", "bool", lambda text: str(_address(text)) == text)],
        "family": [(".map", "int", lambda value: int(_address(value[_IP]).version))],
        "isCIDR": [("string", "bool", lambda text: _succeeds(_network, text))],
        "cidr": [("string", "any", lambda text: {_CIDR: str(_network(text))})],
        "prefixLength": [(".map", "int", lambda value: int(_network(value[_CIDR]).network.prefixlen))],
        "masked": [(".map", "any", lambda value: {_CIDR: str(_network(value[_CIDR]).network)})],
        "containsIP": [
            (".map map", "bool", lambda net, one: _address(one[_IP]) in _network(net[_CIDR]).network),
            (".map string", "bool", lambda net, one: _address(one) in _network(net[_CIDR]).network),
        ],
        "containsCIDR": [
            (".map map", "bool", lambda net, one: _within(net, one[_CIDR])),
            (".map string", "bool", _within),
        ],
    }


_ADDRESS_QUESTIONS = {
    "isUnspecified": lambda ip: ip.is_unspecified,
    "isLoopback": lambda ip: ip.is_loopback,
    "isLinkLocalMulticast": lambda ip: ip in ipaddress.ip_network("224.0.0.0/24" if ip.version == 4 else "ff02::/16"),
    "isLinkLocalUnicast": lambda ip: ip.is_link_local,
    "isGlobalUnicast": lambda ip: (
        not (ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local or str(ip) == "255.255.255.255")
    ),
}


def _within(net: Opaque, text: str) -> bool:
    outer, inner = _network(net[_CIDR]).network, _network(text).network
    return bool(outer.version == inner.version and inner.subnet_of(outer))


def _address_question(question: Callable[[Any], bool]) -> Callable[[Opaque], bool]:
    return lambda value: bool(question(_address(value[_IP])))


def _constant(value: Opaque) -> Callable[[], Opaque]:
    return lambda: dict(value)
