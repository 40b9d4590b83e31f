"""Messages of the built-in kinds, read by tables of field numbers: one reader per component, made on first use.

The numbers come from the snapshot of the Go types; nothing here knows a kind by name.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kube_apimachinery.duration import format_ns
from kube_embedded.builtins import snapshot
from kube_embedded.protobuf import wire
from kube_embedded.schema.model import Raw

Read = Callable[[wire.Value], Any]
_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    read: Read
    how: str  # one | list | map


class Message:
    """A table from field numbers to fields; fields of embedded structs sit one message deeper."""

    def __init__(self) -> None:
        self.fields: dict[int, _Field] = {}
        self.embedded: dict[int, dict[int, _Field]] = {}

    def read(self, value: wire.Value) -> Any:
        obj: dict[str, Any] = {}
        self._read_into(obj, wire.message_of(value), self.fields)
        return obj

    def _read_into(self, obj: dict[str, Any], message: memoryview, table: dict[int, _Field]) -> None:
        for number, _, value in wire.fields(message):
            field = table.get(number)
            if field is not None:
                _put(obj, field, value)
            elif table is self.fields and number in self.embedded:
                self._read_into(obj, wire.message_of(value), self.embedded[number])


def _put(obj: dict[str, Any], field: _Field, value: wire.Value) -> None:
    match field.how:
        case "list":
            obj.setdefault(field.name, []).append(field.read(value))
        case "map":
            key, item = _entry(field.read, wire.message_of(value))
            obj.setdefault(field.name, {})[key] = item
        case _:
            obj[field.name] = field.read(value)


def _entry(read: Read, message: memoryview) -> tuple[str, Any]:
    key, item = "", _absent(read)
    for number, _, value in wire.fields(message):
        if number == 1:
            key = wire.text(value)
        elif number == 2:
            item = read(value)
    return key, item


def _absent(read: Read) -> Any:
    """The value of a map entry that brings none."""
    return 0 if read in (_read_integer, _read_boolean) else read(memoryview(b""))


_MESSAGES: dict[str, Message] = {}


def message(component: str) -> Message:
    """The reader of a component."""
    found = _MESSAGES.get(component)
    if found is None:
        found = _MESSAGES[component] = Message()
        properties = snapshot.components()[component].get("properties", {})
        for name, (kind, _, number) in snapshot.go_fields(component).items():
            if name in properties:
                _add(found, name, kind, number, properties[name])
    return found


def _add(target: Message, name: str, kind: str, number: Any, raw: Raw) -> None:
    how, described = _container(raw)
    field = _Field(name, _reader(described, kind), how)
    if isinstance(number, list):
        outer, inner, _ = number
        target.embedded.setdefault(outer, {})[inner] = field
    elif number:
        target.fields[number] = field


def _container(raw: Raw) -> tuple[str, Raw]:
    if raw.get("type") == "array":
        return "list", raw["items"]
    if raw.get("type") == "object" and "additionalProperties" in raw:
        return "map", raw["additionalProperties"]
    return "one", raw


def _reader(raw: Raw, kind: str) -> Read:
    reference = raw.get("$ref") or next((one.get("$ref") for one in raw.get("allOf", ())), None)
    if reference:
        return _component_reader(str(reference).removeprefix(_REF))
    if kind.endswith("v1.Duration"):
        return _read_duration
    match raw.get("type"), raw.get("format"):
        case "string", "byte":
            return _read_bytes
        case "string", _:
            return wire.text
        case "integer", _:
            return _read_integer
        case "boolean", _:
            return _read_boolean
        case "number", _:
            return _read_double
        case "array", _:
            return _read_string_list
        case _:
            return _read_json


def _component_reader(component: str) -> Read:
    special = _SPECIAL.get(component)
    if special is not None:
        return special
    if snapshot.components()[component].get("type") != "object":
        return _read_unsupported
    return message(component).read


def _read_unsupported(value: wire.Value) -> Any:
    raise wire.WireError("this kind is not supported in protobuf form")


def _read_integer(value: wire.Value) -> int:
    return wire.signed(wire.number_of(value))


def _read_boolean(value: wire.Value) -> bool:
    return bool(wire.number_of(value))


def _read_double(value: wire.Value) -> float:
    raw = wire.message_of(value)
    if len(raw) != 8:
        raise wire.WireError("wrong wireType for a double")
    return wire.double(raw)


def _read_bytes(value: wire.Value) -> str:
    return base64.b64encode(wire.message_of(value)).decode()


def _read_string_list(value: wire.Value) -> list[str]:
    """A named list of strings is a message of its own: `{1: repeated string}`."""
    return [wire.text(one) for number, _, one in wire.fields(wire.message_of(value)) if number == 1]


def _read_json(value: wire.Value) -> Any:
    """A raw JSON document: `{1: bytes}`."""
    for number, _, one in wire.fields(wire.message_of(value)):
        if number == 1 and len(wire.message_of(one)):
            try:
                return msgspec.json.decode(wire.message_of(one))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise wire.WireError("embedded document is not valid JSON") from None
    return None


def _read_quantity(value: wire.Value) -> str:
    found = [wire.text(one) for number, _, one in wire.fields(wire.message_of(value)) if number == 1]
    return found[-1] if found else "0"


def _read_int_or_string(value: wire.Value) -> int | str:
    parts = {number: one for number, _, one in wire.fields(wire.message_of(value))}
    if wire.number_of(parts.get(1, 0)) == 1:
        return wire.text(parts.get(3, memoryview(b"")))
    return wire.signed(wire.number_of(parts.get(2, 0)))


def _moment(value: wire.Value) -> datetime | None:
    parts = {number: wire.signed(wire.number_of(one)) for number, _, one in wire.fields(wire.message_of(value))}
    if not parts:
        return None
    try:
        return _EPOCH + timedelta(seconds=parts.get(1, 0), microseconds=parts.get(2, 0) // 1000)
    except OverflowError:
        raise wire.WireError("time is out of range") from None


def _read_time(value: wire.Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_micro_time(value: wire.Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _read_duration(value: wire.Value) -> str:
    parts = {number: one for number, _, one in wire.fields(wire.message_of(value))}
    return format_ns(wire.signed(wire.number_of(parts.get(1, 0))))


_SPECIAL: dict[str, Read] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _read_quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _read_int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _read_json,
    _META + "FieldsV1": _read_json,
    _META + "Time": _read_time,
    _META + "MicroTime": _read_micro_time,
    _META + "Duration": _read_duration,
}
