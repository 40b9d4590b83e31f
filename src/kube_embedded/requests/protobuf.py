"""Request bodies in Kubernetes' protobuf form: the wire format, the messages of the built-in kinds, and the envelope.

Messages are read by tables of field numbers, one reader per component, made on first use; the numbers come from the
snapshot of the Go types, and nothing here knows a kind by name. Bytes come from strangers: nothing is read beyond the
end, nothing is allocated that the input did not bring, and whatever arrives, the answer is an object or a refusal.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kube_apimachinery.duration import format_ns
from kube_apimachinery.protobuf_wire import Value, WireError, fields
from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.builtins import snapshot
from kube_embedded.schema.model import Raw


def signed(value: int) -> int:
    """A varint as the two's complement number that it stands for."""
    return value - 2**64 if value >= 2**63 else value


def double(value: memoryview) -> float:
    number: float = struct.unpack("<d", value)[0]
    return number


def text(value: Value) -> str:
    """A string; invalid UTF-8 is refused."""
    if isinstance(value, int):
        raise WireError("wrong wireType for a string")
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise WireError("string is not valid UTF-8") from None


def message_of(value: Value) -> memoryview:
    if isinstance(value, int):
        raise WireError("wrong wireType for a message")
    return value


def number_of(value: Value) -> int:
    if not isinstance(value, int):
        raise WireError("wrong wireType for a number")
    return value


Read = Callable[[Value], Any]
_REF = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_DEFINITIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
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

    def read(self, value: Value) -> Any:
        obj: dict[str, Any] = {}
        self._read_into(obj, message_of(value), self.fields)
        return obj

    def _read_into(self, obj: dict[str, Any], message: memoryview, table: dict[int, _Field]) -> None:
        for number, _, value in fields(message):
            field = table.get(number)
            if field is not None:
                _put(obj, field, value)
            elif table is self.fields and number in self.embedded:
                self._read_into(obj, message_of(value), self.embedded[number])


def _put(obj: dict[str, Any], field: _Field, value: Value) -> None:
    match field.how:
        case "list":
            obj.setdefault(field.name, []).append(field.read(value))
        case "map":
            key, item = _entry(field.read, message_of(value))
            obj.setdefault(field.name, {})[key] = item
        case _:
            obj[field.name] = field.read(value)


def _entry(read: Read, message: memoryview) -> tuple[str, Any]:
    key, item = "", _absent(read)
    for number, _, value in fields(message):
        if number == 1:
            key = text(value)
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
            return text
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
    return message(component).read if special is None else special


def _read_integer(value: Value) -> int:
    return signed(number_of(value))


def _read_boolean(value: Value) -> bool:
    return bool(number_of(value))


def _read_double(value: Value) -> float:
    raw = message_of(value)
    if len(raw) != 8:
        raise WireError("wrong wireType for a double")
    return double(raw)


def _read_bytes(value: Value) -> str:
    return base64.b64encode(message_of(value)).decode()


def _read_string_list(value: Value) -> list[str]:
    """A named list of strings is a message of its own: `{1: repeated string}`."""
    return [text(one) for number, _, one in fields(message_of(value)) if number == 1]


def _read_json(value: Value) -> Any:
    """A raw JSON document: `{1: bytes}`."""
    for number, _, one in fields(message_of(value)):
        if number == 1 and len(message_of(one)):
            try:
                return msgspec.json.decode(message_of(one))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise WireError("embedded document is not valid JSON") from None
    return None


def _read_quantity(value: Value) -> str:
    found = [text(one) for number, _, one in fields(message_of(value)) if number == 1]
    return found[-1] if found else "0"


def _read_int_or_string(value: Value) -> int | str:
    parts = {number: one for number, _, one in fields(message_of(value))}
    if number_of(parts.get(1, 0)) == 1:
        return text(parts.get(3, memoryview(b"")))
    return signed(number_of(parts.get(2, 0)))


def _moment(value: Value) -> datetime | None:
    parts = {number: signed(number_of(one)) for number, _, one in fields(message_of(value))}
    if not parts:
        return None
    try:
        return _EPOCH + timedelta(seconds=parts.get(1, 0), microseconds=parts.get(2, 0) // 1000)
    except OverflowError:
        raise WireError("time is out of range") from None


def _read_time(value: Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_micro_time(value: Value) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _read_schema_or_list(value: Value) -> Any:
    return _one_or_list(value, _read_schema)


def _read_schema_or_boolean(value: Value) -> Any:
    parts = {number: one for number, _, one in fields(message_of(value))}
    return _read_schema(parts[2]) if 2 in parts else _read_boolean(parts.get(1, 0))


def _read_schema_or_names(value: Value) -> Any:
    return _one_or_list(value, text)


def _one_or_list(value: Value, read: Read) -> Any:
    """`{1: schema, 2: repeated}`."""
    parts = [(number, one) for number, _, one in fields(message_of(value))]
    listed = [read(one) for number, one in parts if number == 2]
    schemas = [_read_schema(one) for number, one in parts if number == 1]
    return listed or (schemas[-1] if schemas else None)


def _read_schema(value: Value) -> Any:
    return message(_DEFINITIONS + "JSONSchemaProps").read(value)


def _read_duration(value: Value) -> str:
    parts = {number: one for number, _, one in fields(message_of(value))}
    return format_ns(signed(number_of(parts.get(1, 0))))


_SPECIAL: dict[str, Read] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _read_quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _read_int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _read_json,
    _META + "FieldsV1": _read_json,
    _META + "Time": _read_time,
    _META + "MicroTime": _read_micro_time,
    _META + "Duration": _read_duration,
    _DEFINITIONS + "JSON": _read_json,
    _DEFINITIONS + "JSONSchemaPropsOrArray": _read_schema_or_list,
    _DEFINITIONS + "JSONSchemaPropsOrBool": _read_schema_or_boolean,
    _DEFINITIONS + "JSONSchemaPropsOrStringArray": _read_schema_or_names,
}


PREFIX = b"k8s\x00"
_OPTIONS = "DeleteOptions"


def decode(body: bytes) -> dict[str, Any]:
    """The JSON object of a protobuf body; ApiError 400 for anything else."""
    if not body.startswith(PREFIX):
        raise bad_request(
            "couldn't get version/kind; provided data does not appear to be a protobuf message, "
            "expected prefix [107 56 115 0]"
        )
    try:
        return _decode(memoryview(body)[len(PREFIX) :])
    except (WireError, RecursionError) as error:
        raise bad_request(f"couldn't decode the protobuf body: {error}") from None


def _decode(unknown: memoryview) -> dict[str, Any]:
    version = kind = encoding = ""
    raw = memoryview(b"")
    for number, _, value in fields(unknown):
        if number == 1:
            version, kind = _type_meta(message_of(value))
        elif number == 2:
            raw = message_of(value)
        elif number == 3:
            encoding = text(value)
    if encoding:
        raise bad_request(f'protobuf body: content encoding "{encoding}" is not supported')
    obj = message(_component(version, kind)).read(raw)
    return {"apiVersion": version, "kind": kind, **obj}


def _type_meta(value: memoryview) -> tuple[str, str]:
    parts = {number: text(one) for number, _, one in fields(value) if number in (1, 2)}
    return parts.get(1, ""), parts.get(2, "")


def _component(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    if kind == _OPTIONS:  # of every group version: typed clients name their own
        return _META + _OPTIONS
    component = snapshot.component_of(group, version, kind)
    if component is None:
        raise _unknown(api_version, kind)
    return component


def _unknown(api_version: str, kind: str) -> ApiError:
    return bad_request(f'no kind "{kind}" is registered for version "{api_version}" in protobuf form')
