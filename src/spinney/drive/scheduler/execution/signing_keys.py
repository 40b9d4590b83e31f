"""The keys that sign plans: in a Secret that all schedulers of a cluster read and no tenant can.

The first scheduler that finds no usable key creates one, by compare-and-swap. A usable key is never replaced.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping

import msgspec
import structlog

from kube_apimachinery.clock import Dice
from spinney.api.roles.catalog import SCHEDULER_RECORDS
from spinney.core.scheduling.plan_records import KEY_BYTES
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Refused, Written
from spinney.drive.apply.write import Precondition
from spinney.drive.backoff import Backoff
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import ClientError, ConfigError, NotFound, Policy
from spinney.drive.client.paths import Ref, ResourcePath

SECRETS = ResourcePath("", "v1", "secrets")
KEY, PREVIOUS = "key", "previous-key"
"""The key that signs new records, and the key that older records may be signed with."""

_BACKOFF = Backoff(base_s=0.2, cap_s=5.0)

_log = structlog.get_logger(__name__)


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    uid: str = ""
    resource_version: str = ""


class _Secret(msgspec.Struct, frozen=True):
    metadata: _Meta
    data: dict[str, str] | None = None


async def find_record_keys(
    client: ApiClient, door: Door, namespace: str, dice: Dice, draw: Callable[[int], bytes]
) -> tuple[bytes, ...]:
    """The keys, newest first; a new one is drawn if there is none. Raises `ConfigError` if there can be none.

    `draw` returns that many random bytes. Waits for an API server that is out of reach.
    """
    ref, attempt = SECRETS.ref(SCHEDULER_RECORDS, namespace), 0
    while True:
        try:
            keys = await _find(client, door, ref, draw)
        except ClientError as error:
            if error.policy not in (Policy.RETRY_NOW, Policy.RETRY_LATER):
                raise ConfigError(f"{ref}, which holds the keys of records, can not be used: {error}") from error
            _log.warning("the keys of records are out of reach", secret=str(ref), error=str(error))
            keys = ()
        if keys:
            return keys
        await asyncio.sleep(_BACKOFF.delay_s(attempt, dice))
        attempt += 1


async def _find(client: ApiClient, door: Door, ref: Ref, draw: Callable[[int], bytes]) -> tuple[bytes, ...]:
    """Empty: another writer was first, or the result of the write is unknown; read again."""
    try:
        found = await client.get(ref, _Secret)
    except NotFound:
        return await _fill(door, ref, None, draw)
    return read_keys(found.data or {}, str(ref)) or await _fill(door, ref, found.metadata, draw)


async def _fill(door: Door, ref: Ref, found: _Meta | None, draw: Callable[[int], bytes]) -> tuple[bytes, ...]:
    key = draw(KEY_BYTES)
    data = {"data": {KEY: b64encode(key).decode()}}
    if found is None:
        body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", **data}
        outcome = await door.create(ref, body)
    else:
        outcome = await door.merge_patch(ref, data, Precondition(found.uid, found.resource_version))
    match outcome:
        case Written():
            _log.info("a key for records was made", secret=str(ref))
            return (key,)
        case Refused(status):
            missing = "is not there and can not be made" if found is None else "is empty and can not be filled"
            raise ConfigError(f"{ref} {missing} ({status.message}): apply `spinney manifests rbac` first")
        case _:
            return ()


def read_keys(data: Mapping[str, str], shown: str) -> tuple[bytes, ...]:
    """The keys in the data of the Secret; empty: the newest is not usable. Unusable keys are logged."""
    newest = _read_key(data.get(KEY, ""), f"{shown}: data.{KEY}")
    if newest is None:
        return ()
    previous = _read_key(data.get(PREVIOUS, ""), f"{shown}: data.{PREVIOUS}")
    return (newest,) if previous is None else (newest, previous)


def _read_key(text: str, field: str) -> bytes | None:
    try:
        key = b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        _log.warning("a key for records can not be used", field=field, problem=f"it is not base64: {error}")
        return None
    if text and len(key) < KEY_BYTES:
        problem = f"found {len(key)} bytes, expected {KEY_BYTES} or more"
        _log.warning("a key for records can not be used", field=field, problem=problem)
    return key if len(key) >= KEY_BYTES else None
