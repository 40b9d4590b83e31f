"""What the webhook writes to a cluster: trust in its certificates, and the authorities that its replicas share.

Only objects that are there are changed, never more of them than the webhook owns.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from kube_apimachinery import tls
from spinney.api.crds import crd
from spinney.api.documents import read_json_as
from spinney.api.roles.catalog import CONVERTED_DEFINITION, WEBHOOK_CONFIGURATION
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, written
from spinney.drive.apply.write import ANY, Precondition
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import Conflict, NotFound
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import ResourcePath
from spinney.drive.clock import system_dice
from spinney.serve.webhook.certificates import Authorities, OutpacedError
from spinney.serve.webhook.configurations import Address, trusting, trusting_conversion
from spinney.whatif.inputs.operator_settings import ConfigurationError

log = structlog.get_logger("webhook")

FIELD_MANAGER = "spinney-webhook"
SECRETS = ResourcePath("", "v1", "secrets")
CONFIGURATIONS = {
    kind: ResourcePath("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
POLICIES = {
    "ValidatingAdmissionPolicy": ResourcePath(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", namespaced=False
    ),
    "ValidatingAdmissionPolicyBinding": ResourcePath(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", namespaced=False
    ),
}
DEFINITIONS = ResourcePath("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
_CONVERTED = "DynamoGraphDeployment"
_KEY = "authorities"


class MissingError(ConfigurationError):
    """Something that `spinney manifests` would have brought is not there."""


def trust_door(transport: Transport) -> Door:
    """Trust has an owner of its own: applying it gives up nothing else of a configuration."""
    return Door(transport, system_dice(), field_manager=f"{FIELD_MANAGER}-trust")


async def publish_trust(client: ApiClient, door: Door, bundle: bytes, name: str = WEBHOOK_CONFIGURATION) -> None:
    """The bundle into both configurations as they are; nothing is written where it is there already."""
    for kind, path in CONFIGURATIONS.items():
        ref = path.ref(name)
        try:
            found = await client.get(ref)
        except NotFound as error:
            raise MissingError(f"{kind} {name} is not there: apply `spinney manifests webhooks` first") from error
        change = trusting(found | {"kind": kind}, bundle)
        if change is not None:
            written(await door.apply(ref, change, Precondition(uid=found["metadata"]["uid"])))


async def publish_conversion_trust(client: ApiClient, door: Door, bundle: bytes) -> None:
    """The bundle into the definition whose versions we convert, if it is there and asks us."""
    ref = DEFINITIONS.ref(CONVERTED_DEFINITION)
    try:
        found = await client.get(ref)
    except NotFound:
        return
    described = found | {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    change = trusting_conversion(described, bundle)
    if change is not None:
        written(await door.apply(ref, change, Precondition(uid=found["metadata"]["uid"])))


async def apply_conversion(client: ApiClient, door: Door, address: Address) -> None:
    """The kind whose versions we convert is told where, and serves all of them; where it is not, nothing is done."""
    ref = DEFINITIONS.ref(CONVERTED_DEFINITION)
    try:
        found = await client.get(ref)
    except NotFound:
        return
    written(await door.apply(ref, crd(_CONVERTED, address.conversion()), Precondition(uid=found["metadata"]["uid"])))


async def apply_configurations(door: Door, configurations: list[dict[str, Any]]) -> None:
    """Whole configurations, made or changed."""
    for one in configurations:
        written(await door.apply(CONFIGURATIONS[one["kind"]].ref(one["metadata"]["name"]), one, ANY))


async def apply_policies(door: Door, policies: list[dict[str, Any]]) -> None:
    """Policies and their bindings, made or changed; nothing where the API server does not serve them."""
    for one in policies:
        outcome = await door.apply(POLICIES[one["kind"]].ref(one["metadata"]["name"]), one, ANY)
        if isinstance(outcome, Gone):
            log.info("the API server has no ValidatingAdmissionPolicy: what is reserved is kept by the webhook alone")
            return
        written(outcome)


class _Kept(msgspec.Struct):
    certificate: str
    key: str


class SecretStore:
    """Authorities in a Secret that is there; changed by compare-and-swap."""

    def __init__(self, client: ApiClient, door: Door, namespace: str, name: str) -> None:
        self._client = client
        self._door = door
        self._ref = SECRETS.ref(name, namespace)
        self._read_as: Precondition | None = None

    async def read(self) -> Authorities:
        try:
            found = await self._client.get(self._ref)
        except NotFound as error:
            raise MissingError(f"{self._ref} is not there: apply `spinney manifests webhooks` first") from error
        metadata = found["metadata"]
        self._read_as = Precondition(metadata["uid"], metadata["resourceVersion"])
        return _decoded(found.get("data") or {})

    async def write(self, authorities: Authorities) -> None:
        assert self._read_as is not None, "read comes first"
        body = {"data": {_KEY: _encoded(authorities)}}
        try:
            written(await self._door.merge_patch(self._ref, body, self._read_as))
        except Conflict as error:
            raise OutpacedError(f"{self._ref} was changed by somebody else") from error


def _encoded(authorities: Authorities) -> str:
    kept = [_Kept(one.certificate_pem.decode(), one.key_pem.decode()) for one in authorities]
    return base64.b64encode(msgspec.json.encode(kept)).decode()


def _decoded(data: Mapping[str, str]) -> Authorities:
    """What cannot be read is as good as nothing: others are made."""
    try:
        kept = read_json_as(base64.b64decode(data.get(_KEY, "")) or b"[]", list[_Kept])
    except ValueError:
        return ()
    return tuple(tls.Certificate(one.certificate.encode(), one.key.encode()) for one in kept)
