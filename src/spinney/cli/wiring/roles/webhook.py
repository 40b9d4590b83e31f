"""The webhook against a cluster: listener, certificates, and the trust of API servers in them.

What its rules look at is read live for each review: a verdict on an old view could differ from the store's. It writes
trust in its certificates, and the authorities that its replicas share: only objects that are there are changed, never
more of them than the webhook owns.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import structlog

from kube_apimachinery import tls
from kube_apimachinery.system_clock import SystemClock, system_dice
from spinney.api.crds import crd
from spinney.api.documents import read_json_as
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.meta import PartialObject
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.roles import NAMESPACE, users_in
from spinney.api.roles.catalog import CONVERTED_DEFINITION, WEBHOOK_CLUSTER_ROLE, WEBHOOK_CONFIGURATION
from spinney.cli.wiring.addresses import certificate_hosts, reachable_host
from spinney.cli.wiring.roles.registry import RoleConfig, WebhookOptions
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings, settings_of
from spinney.drive.apply.door import Door
from spinney.drive.apply.outcome import Gone, written
from spinney.drive.apply.write import ANY, Precondition
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import Conflict, NotFound
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import ResourcePath
from spinney.drive.operator.settings_from_config import capabilities_of
from spinney.serve.webhook.certificates import (
    Authorities,
    CertificateRotation,
    InMemoryStore,
    Merge,
    MountedCertificates,
    OutpacedError,
    Schedule,
    SelfSigned,
    Source,
    Store,
)
from spinney.serve.webhook.configurations import Address, trusting, trusting_conversion, webhook_configurations
from spinney.serve.webhook.handler import CONVERT, MUTATE, VALIDATE, AdmissionUnion, Page, Webhook, converted
from spinney.serve.webhook.listener import serving
from spinney.serve.webhook.policies import admission_policies
from spinney.whatif.inputs.operator_settings import ConfigurationError
from spinney.whatif.inputs.snapshot import ClusterReader

FIELD_MANAGER = "spinney-webhook"
SECRETS = ResourcePath("", "v1", "secrets")
CONFIGURATIONS = {
    kind: ResourcePath("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
CLUSTER_ROLES = ResourcePath("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
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


Restore = Callable[[str], Awaitable[bool]]
"""Makes the configuration of a kind again; false if that cannot be done."""


async def _never(kind: str) -> bool:
    return False


async def publish_trust(
    client: ApiClient, door: Door, merge: Merge, name: str = WEBHOOK_CONFIGURATION, restore: Restore = _never
) -> None:
    """The bundle into both configurations as they are; nothing is written where it is there already."""
    for kind, path in CONFIGURATIONS.items():
        ref = path.ref(name)
        try:
            found = await client.get(ref)
        except NotFound as error:
            if await restore(kind):
                continue
            raise MissingError(f"{kind} {name} is not there: apply `spinney manifests webhooks` first") from error
        change = trusting(found | {"kind": kind}, merge)
        if change is not None:
            written(await door.apply(ref, change, Precondition(uid=found["metadata"]["uid"])))


async def publish_conversion_trust(client: ApiClient, door: Door, merge: Merge) -> None:
    """The bundle into the definition whose versions we convert, if it is there and asks us."""
    ref = DEFINITIONS.ref(CONVERTED_DEFINITION)
    try:
        found = await client.get(ref)
    except NotFound:
        return
    described = found | {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    change = trusting_conversion(described, merge)
    if change is not None:
        written(await door.apply(ref, change, Precondition(uid=found["metadata"]["uid"])))


async def apply_conversion(client: ApiClient, door: Door, address: Address) -> None:
    """The kind whose versions we convert names us, and serves all of them; where it is not, nothing is done."""
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
            _log.info("the API server has no ValidatingAdmissionPolicy: what is reserved is kept by the webhook alone")
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
            raise OutpacedError(f"{self._ref} was changed by another client") from error


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


_log = structlog.get_logger("webhook")

_TOPOLOGIES = ResourcePath(ClusterTopology.GROUP, ClusterTopology.VERSION, ClusterTopology.PLURAL, namespaced=False)


def create(role_config: RoleConfig) -> WebhookRole:
    return WebhookRole(role_config, role_config.connect())


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """Where the webhook listens, and under which names it is called."""

    host: str
    port: int
    hosts: tuple[str, ...]
    namespace: str
    service: str

    @classmethod
    def of(cls, options: WebhookOptions, configuration: OperatorConfiguration) -> WebhookEndpoint:
        webhooks = configuration.server.webhooks
        host = options.bind_address or webhooks.bind_address or "127.0.0.1"
        port = webhooks.port if options.port is None else options.port
        names = certificate_hosts(host)
        if not options.service:
            return cls(host, port, tuple(names), NAMESPACE, "")
        namespace, slash, name = options.service.partition("/")
        if not (namespace and slash and name):
            raise ConfigurationError(f"--service {options.service}: expected NAMESPACE/NAME")
        full = f"{name}.{namespace}.svc"
        return cls(host, port, (full, f"{full}.cluster.local", *names), namespace, name)


def rules_of(
    configuration: OperatorConfiguration, users: Mapping[str, str]
) -> tuple[AdmissionSettings, AdmissionUnion]:
    """Every set of rules that there is. `users`: the names of our own roles, which do what they have to."""
    settings = settings_of(configuration, users, capabilities_of(configuration))
    graphs = DynamoAdmissionSettings(
        default_topology=configuration.default_topology, operator_users=settings.dynamo_users
    )
    return settings, AdmissionUnion((OperatorAdmission(settings), DynamoAdmission(graphs)))


def pages_of() -> Mapping[str, Page]:
    """What API servers may call beside reviews."""
    return {CONVERT: converted}


class WebhookRole:
    """One webhook process. With a Service, shipped configurations are changed to trust it; without, they are made, by
    the registrar if there is one.
    """

    def __init__(
        self,
        role_config: RoleConfig,
        transport: Transport,
        *,
        schedule: Schedule | None = None,
        registrar: Transport | None = None,
    ) -> None:
        self._config = role_config
        self._transport = transport
        self._schedule = schedule or Schedule()
        self._client = ApiClient(transport, system_dice())
        self._door = Door(registrar or transport, system_dice(), field_manager=FIELD_MANAGER)
        self._trust_door = trust_door(transport)
        self._url = ""
        self._place = WebhookEndpoint.of(role_config.webhook, role_config.configuration)
        users = users_in(self._place.namespace)
        if role_config.webhook.operator_user:
            users["operator"] = role_config.webhook.operator_user
        self._settings, rules = rules_of(role_config.configuration, users)
        self._webhook = Webhook(rules, ClusterReader(self._client), trouble=self.trouble, pages=pages_of())
        self._upkeep: CertificateRotation | None = None

    def trouble(self) -> str:
        return self._upkeep.trouble if self._upkeep is not None else "starting"

    def has_answered(self, *paths: str) -> bool:
        """Whether an API server has asked under each of these paths."""
        return {path for path, status in self._webhook.answered if status == HTTPStatus.OK} >= set(paths)

    def figures(self) -> dict[str, float]:
        calls = {
            f'calls_total{{path="{path}",code="{status}"}}': float(count)
            for (path, status), count in sorted(self._webhook.answered.items())
        }
        faults = {f'faults_total{{path="{path}"}}': float(self._webhook.faults[path]) for path in (MUTATE, VALIDATE)}
        failing = float(self._upkeep is not None and bool(self._upkeep.failure))
        return {**calls, **faults, "certificates_failing": failing}

    async def run(self) -> None:
        try:
            await self._check_configurations()
            upkeep = CertificateRotation(self._source(), self._publish, SystemClock(), self._schedule.settle_s)
            certificate = await _first(upkeep)
            async with serving(self._webhook, certificate, self._place.host, self._place.port) as listener:
                if not self._place.service:
                    self._url = listener.url.replace(self._place.host, reachable_host(self._place.host))
                self._upkeep = upkeep
                _log.info("listening", url=listener.url)
                await upkeep.run(listener.show)
        finally:
            await self._transport.close()

    async def _check_configurations(self) -> None:
        """Whoever may not read topologies can judge nothing: better to know it at once."""
        with contextlib.suppress(NotFound):
            await self._client.get(_TOPOLOGIES.ref(self._settings.default_topology))

    async def _publish(self, merge: Merge) -> None:
        """Whole configurations once, where none are shipped; after that what they trust."""
        if self._url:
            address = Address(merge(b""), url=self._url)
            await apply_policies(self._door, admission_policies(self._settings))
            await apply_configurations(self._door, self._configurations(address))
            await apply_conversion(self._client, self._door, address)
            self._url = ""
        await publish_conversion_trust(self._client, self._trust_door, merge)
        await publish_trust(self._client, self._trust_door, merge, restore=lambda kind: self._restore(kind, merge))

    async def _restore(self, kind: str, merge: Merge) -> bool:
        """A shipped configuration that somebody deleted is made again, as `kubectl apply` would.

        It belongs to the rights of this role: an uninstallation that takes them away takes it along.
        """
        place = self._place
        try:
            rights = await self._client.get(CLUSTER_ROLES.ref(WEBHOOK_CLUSTER_ROLE), PartialObject)
        except NotFound:
            return False
        owner = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", "name": WEBHOOK_CLUSTER_ROLE}
        address = Address(merge(b""), service_namespace=place.namespace, service_name=place.service)
        door = Door(self._transport, system_dice(), field_manager="kubectl")
        for one in self._configurations(address):
            if one["kind"] == kind:
                one["metadata"]["ownerReferences"] = [{**owner, "uid": rights.metadata.uid}]
                await apply_configurations(door, [one])
        _log.warning("a configuration was deleted and is made again", kind=kind, name=WEBHOOK_CONFIGURATION)
        return True

    def _source(self) -> Source:
        webhooks = self._config.configuration.server.webhooks
        directory = self._config.webhook.cert_dir
        if directory is not None:
            return MountedCertificates(directory)
        if webhooks.cert_provision_mode == "manual":
            return MountedCertificates(Path(webhooks.server_cert_dir))
        store: Store = InMemoryStore()
        if self._place.service:
            store = SecretStore(self._client, self._trust_door, self._place.namespace, webhooks.secret_name)
        return SelfSigned(store, self._place.hosts, self._schedule)

    def _configurations(self, address: Address) -> list[dict[str, Any]]:
        return webhook_configurations(address, [self._place.namespace], settings=self._settings)


async def _first(upkeep: CertificateRotation) -> tls.Certificate:
    """Files that cannot be used are a mistake of whoever mounted them."""
    try:
        return await upkeep.begin()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"certificates: {error}") from error
