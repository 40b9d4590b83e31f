"""The webhook against a cluster: listener, certificates, and API servers told to trust them.

What its rules look at is read live for each review: a verdict on an old view could differ from the store's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import structlog

from kube_apimachinery import tls
from spinney.api.kinds.clustertopology import ClusterTopology
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.api.roles import NAMESPACE, users_in
from spinney.cli.wiring.addresses import certificate_hosts, reachable_host
from spinney.cli.wiring.roles.registry import RoleConfig, WebhookOptions
from spinney.cli.wiring.roles.webhook_publisher import (
    FIELD_MANAGER,
    SecretStore,
    apply_configurations,
    apply_conversion,
    apply_policies,
    publish_conversion_trust,
    publish_trust,
    trust_door,
)
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import AdmissionSettings, settings_of
from spinney.drive.apply.door import Door
from spinney.drive.client.api import ApiClient
from spinney.drive.client.errors import NotFound
from spinney.drive.client.http.transport import Transport
from spinney.drive.client.paths import ResourcePath
from spinney.drive.clock import SystemClock, system_dice
from spinney.drive.operator.settings_from_config import capabilities_of
from spinney.serve.webhook.certificates import (
    CertificateRotation,
    InMemoryStore,
    MountedCertificates,
    Schedule,
    SelfSigned,
    Source,
    Store,
)
from spinney.serve.webhook.configurations import Address, webhook_configurations
from spinney.serve.webhook.handler import CONVERT, MUTATE, VALIDATE, AdmissionUnion, Page, Webhook, converted
from spinney.serve.webhook.listener import serving
from spinney.serve.webhook.policies import admission_policies
from spinney.whatif.inputs.operator_settings import ConfigurationError
from spinney.whatif.inputs.snapshot import ClusterReader

log = structlog.get_logger("webhook")

_TOPOLOGIES = ResourcePath(ClusterTopology.GROUP, ClusterTopology.VERSION, ClusterTopology.PLURAL, namespaced=False)


def create(told: RoleConfig) -> WebhookRole:
    return WebhookRole(told, told.connect())


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
        told = configuration.server.webhooks
        host = options.bind_address or told.bind_address or "127.0.0.1"
        port = told.port if options.port is None else options.port
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
    """One webhook process. With a Service, shipped configurations are told to trust it; without, they are made, by
    the registrar if there is one.
    """

    def __init__(
        self,
        told: RoleConfig,
        transport: Transport,
        *,
        schedule: Schedule | None = None,
        registrar: Transport | None = None,
    ) -> None:
        self._config = told
        self._transport = transport
        self._schedule = schedule or Schedule()
        self._client = ApiClient(transport, system_dice())
        self._door = Door(registrar or transport, system_dice(), field_manager=FIELD_MANAGER)
        self._trust_door = trust_door(transport)
        self._url = ""
        self._place = WebhookEndpoint.of(told.webhook, told.configuration)
        users = users_in(self._place.namespace)
        if told.webhook.operator_user:
            users["operator"] = told.webhook.operator_user
        self._settings, rules = rules_of(told.configuration, users)
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
                log.info("listening", url=listener.url)
                await upkeep.run(listener.show)
        finally:
            await self._transport.close()

    async def _check_configurations(self) -> None:
        """Whoever may not read topologies can judge nothing: better to know it at once."""
        with contextlib.suppress(NotFound):
            await self._client.get(_TOPOLOGIES.ref(self._settings.default_topology))

    async def _publish(self, bundle: bytes) -> None:
        """Whole configurations once, where none are shipped; after that what they trust."""
        if self._url:
            address = Address(bundle, url=self._url)
            await apply_policies(self._door, admission_policies(self._settings))
            await apply_configurations(self._door, self._configurations(address))
            await apply_conversion(self._client, self._door, address)
            self._url = ""
        await publish_conversion_trust(self._client, self._trust_door, bundle)
        await publish_trust(self._client, self._trust_door, bundle)

    def _source(self) -> Source:
        told = self._config.configuration.server.webhooks
        directory = self._config.webhook.cert_dir
        if directory is not None:
            return MountedCertificates(directory)
        if told.cert_provision_mode == "manual":
            return MountedCertificates(Path(told.server_cert_dir))
        store: Store = InMemoryStore()
        if self._place.service:
            store = SecretStore(self._client, self._trust_door, self._place.namespace, told.secret_name)
        return SelfSigned(store, self._place.hosts, self._schedule)

    def _configurations(self, address: Address) -> list[dict[str, Any]]:
        return webhook_configurations(address, [self._place.namespace], settings=self._settings)


async def _first(upkeep: CertificateRotation) -> tls.Certificate:
    """Files that cannot be used are a mistake of whoever mounted them."""
    try:
        return await upkeep.begin()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"certificates: {error}") from error
