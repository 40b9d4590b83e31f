"""The operator's configuration file, as commands take it; without one, what suits a stack on one machine."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kube_embedded.base.identity import role_identity
from spinney.api.documents import DocumentError, read_bounded
from spinney.api.labels import SCHEDULER_KAI
from spinney.api.operator_configuration import (
    BACKENDS,
    OperatorConfiguration,
    PlacementStrategy,
    fields_given,
    load_configuration,
)
from spinney.api.operator_configuration import ConfigurationError as InvalidFields
from spinney.api.roles import Names, users_in
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import settings_of
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.drive.operator.settings_from_config import capabilities_of, third_party_backends

_FOR_ONE_MACHINE = """
scheduler:
  profiles:
  - {name: kai-scheduler, default: true}
topologyAwareScheduling:
  enabled: true
  levels:
  - {domain: zone, key: topology.kubernetes.io/zone}
  - {domain: block, key: topology.kubernetes.io/block}
  - {domain: rack, key: topology.kubernetes.io/rack}
  - {domain: host, key: kubernetes.io/hostname}
"""


class ConfigurationError(ValueError):
    """Something asked for that cannot be had; nothing was started."""


def read_configuration(path: Path | None, otherwise: str = _FOR_ONE_MACHINE) -> OperatorConfiguration:
    """Raises what says which file or field is wrong."""
    backends = (*BACKENDS, *third_party_backends())
    if path is None:
        return load_configuration(otherwise, backends)
    try:
        return load_configuration(_text_of(path), backends)
    except InvalidFields as error:
        raise ConfigurationError(f"--config {path}: {error}") from error


def given_in(path: Path | None) -> frozenset[str]:
    """The fields that a configuration file, which can be used, has values for."""
    return fields_given(_text_of(path)) if path is not None else frozenset()


def _text_of(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return read_bounded(stream)
    except OSError as error:
        raise ConfigurationError(f"--config {path}: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise ConfigurationError(f"--config {path}: {error}") from error


def strategy_of(
    configuration: OperatorConfiguration, gpu: str | None = None, cpu: str | None = None
) -> PlacementStrategy:
    """What the profile of our scheduler says; `gpu` and `cpu` come before it."""
    profiles = [profile for profile in configuration.scheduler.profiles if profile.name == SCHEDULER_KAI]
    strategy = profiles[0].kai.placement_strategy if profiles else PlacementStrategy()
    given = {name: value for name, value in (("gpu", gpu), ("cpu", cpu)) if value is not None}
    return msgspec.structs.replace(strategy, **given)


def names_of(configuration: OperatorConfiguration) -> Names:
    """What the rights of our roles are about."""
    election = configuration.leader_election
    secret = configuration.server.webhooks.secret_name
    return Names(election.resource_name, election.resource_namespace, secret)


def admission_of(configuration: OperatorConfiguration) -> OperatorAdmission:
    """The rules for an embedded server; our own roles do what they have to."""
    return OperatorAdmission(settings_of(configuration, users_in(), capabilities_of(configuration)))


def dynamo_settings_of(configuration: OperatorConfiguration) -> DynamoSettings:
    """Pods of deployments go to the KAI scheduler if that is among the profiles, else to the default of sets."""
    return DynamoSettings(kai=SCHEDULER_KAI in {profile.name for profile in configuration.scheduler.profiles})


def dynamo_admission_of(configuration: OperatorConfiguration) -> DynamoAdmission:
    """The rules for deployments; the Dynamo part itself may change replicas that an adapter owns."""
    users = frozenset({role_identity("dynamo").name})
    return DynamoAdmission(
        DynamoAdmissionSettings(default_topology=configuration.default_topology, operator_users=users)
    )
