"""The envelope around a protobuf body: the prefix `k8s\\0`, the kind, and the message itself.

Whatever arrives, the answer is an object or a refusal that a client can read.
"""

from __future__ import annotations

from typing import Any

from kube_embedded.base.errors import ApiError, bad_request
from kube_embedded.builtins import snapshot
from kube_embedded.protobuf import wire
from kube_embedded.protobuf.messages import message

PREFIX = b"k8s\x00"


def decode(body: bytes) -> dict[str, Any]:
    """The JSON object of a protobuf body; ApiError 400 for anything else."""
    if not body.startswith(PREFIX):
        raise bad_request(
            "couldn't get version/kind; provided data does not appear to be a protobuf message, "
            "expected prefix [107 56 115 0]"
        )
    try:
        return _decode(memoryview(body)[len(PREFIX) :])
    except (wire.WireError, RecursionError) as error:
        raise bad_request(f"couldn't decode the protobuf body: {error}") from None


def _decode(unknown: memoryview) -> dict[str, Any]:
    version = kind = encoding = ""
    raw = memoryview(b"")
    for number, _, value in wire.fields(unknown):
        if number == 1:
            version, kind = _type_meta(wire.message_of(value))
        elif number == 2:
            raw = wire.message_of(value)
        elif number == 3:
            encoding = wire.text(value)
    if encoding:
        raise bad_request(f'protobuf body: content encoding "{encoding}" is not supported')
    obj = message(_component(version, kind)).read(raw)
    return {"apiVersion": version, "kind": kind, **obj}


def _type_meta(value: memoryview) -> tuple[str, str]:
    parts = {number: wire.text(one) for number, _, one in wire.fields(value) if number in (1, 2)}
    return parts.get(1, ""), parts.get(2, "")


def _component(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    component = snapshot.component_of(group, version, kind)
    if component is None:
        raise _unknown(api_version, kind)
    return component


def _unknown(api_version: str, kind: str) -> ApiError:
    return bad_request(f'no kind "{kind}" is registered for version "{api_version}" in protobuf form')
