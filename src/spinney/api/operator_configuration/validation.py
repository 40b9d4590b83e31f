"""What a configuration must fulfil beyond its types (C2, C6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kube_apimachinery.duration import DurationError, nanoseconds
from kube_apimachinery.field_errors import FieldError, duplicate, forbidden, invalid, required
from kube_apimachinery.name_validation import dns_subdomain
from spinney.api.domains import DOMAINS, HOST, is_domain
from spinney.api.labels import HOSTNAME, SCHEDULER_KAI
from spinney.api.operator_configuration.model import (
    API_VERSION,
    KIND,
    Debugging,
    KaiConfig,
    LeaderElection,
    OperatorConfiguration,
    Part,
    Scheduler,
    TopologyAwareScheduling,
    Webhooks,
)

_MAX_PORT = 65535
_JSON = "application/json"
_LEASES = "leases"


def check(
    configuration: OperatorConfiguration, document: Mapping[str, Any], backends: Sequence[str]
) -> list[FieldError]:
    """Every problem; the document tells what was written, the configuration what it means."""
    return [
        *_identity(configuration),
        *_numbers(configuration, ""),
        *_connection(configuration),
        *_debugging(configuration.debugging),
        *_webhooks(configuration.server.webhooks),
        *_election(configuration.leader_election),
        *_topology(configuration, document),
        *_scheduler(configuration.scheduler, backends),
    ]


def _identity(configuration: OperatorConfiguration) -> Iterable[FieldError]:
    for path, found, wanted in (
        ("apiVersion", configuration.api_version, API_VERSION),
        ("kind", configuration.kind, KIND),
    ):
        if found != wanted:
            yield invalid(path, found, f"must be {wanted}")


def _numbers(part: Part, path: str) -> Iterator[FieldError]:
    """Ports, counts and durations of the part and of the parts in it."""
    for one in msgspec.structs.fields(part):
        value, where = getattr(part, one.name), f"{path}{one.encode_name}"
        if isinstance(value, Part):
            yield from _numbers(value, f"{where}.")
        elif one.name in part.PORTS and not 0 <= value <= _MAX_PORT:
            yield invalid(where, value, f"must be between 0 and {_MAX_PORT}")
        elif one.name in part.POSITIVE and value <= 0:
            yield invalid(where, value, "must be greater than 0")
        elif one.name in part.DURATIONS and value is not None:
            yield from _duration(where, value)


def _duration(path: str, value: str) -> Iterable[FieldError]:
    try:
        if nanoseconds(value) <= 0:
            yield invalid(path, value, "must be greater than 0")
    except DurationError as error:
        yield invalid(path, value, f"must be a duration, for instance 15s: {error}")


def _connection(configuration: OperatorConfiguration) -> Iterable[FieldError]:
    connection, path = configuration.runtime_client_connection, "runtimeClientConnection"
    if connection.burst is not None and connection.burst < 0:
        yield invalid(f"{path}.burst", connection.burst, "must be greater than or equal to 0")
    if connection.qps == 0:
        yield invalid(f"{path}.qps", connection.qps, "must not be 0: leave it out, or use -1, for no limit")
    if connection.content_type not in ("", _JSON):
        yield invalid(f"{path}.contentType", connection.content_type, f"must be {_JSON} or empty: nothing else is sent")
    accepted = connection.accept_content_types
    if accepted and _JSON not in [each.strip() for each in accepted.split(",")]:
        yield invalid(f"{path}.acceptContentTypes", accepted, f"must name {_JSON} or be empty: nothing else is read")


def _debugging(debugging: Debugging) -> Iterable[FieldError]:
    if debugging.enable_profiling:
        yield invalid("debugging.enableProfiling", True, "must be false: this operator has no pprof endpoint")


def _webhooks(webhooks: Webhooks) -> Iterable[FieldError]:
    for complaint in dns_subdomain(webhooks.secret_name):
        yield invalid("server.webhooks.secretName", webhooks.secret_name, complaint)


def _election(election: LeaderElection) -> Iterable[FieldError]:
    if not election.enabled:
        return
    for path, value in (("resourceLock", election.resource_lock), ("resourceName", election.resource_name)):
        if not value:
            yield required(f"leaderElection.{path}", "must be set when leader election is enabled")
    if election.resource_lock not in ("", _LEASES):
        yield invalid("leaderElection.resourceLock", election.resource_lock, f"must be {_LEASES}")
    try:
        lease, renew, retry = election.lease_duration_s, election.renew_deadline_s, election.retry_period_s
    except DurationError:
        return
    if lease <= renew:
        detail = f"must be greater than renewDeadline, which is {renew:g}s"
        yield invalid("leaderElection.leaseDuration", election.lease_duration or f"{lease:g}s", detail)
    if renew <= retry:
        detail = f"must be greater than retryPeriod, which is {retry:g}s"
        yield invalid("leaderElection.renewDeadline", election.renew_deadline or f"{renew:g}s", detail)


def _topology(configuration: OperatorConfiguration, document: Mapping[str, Any]) -> Iterable[FieldError]:
    both = [form for form in ("topology", "topologyAwareScheduling") if document.get(form) is not None]
    if len(both) > 1:
        yield forbidden("topology", "must not be set together with topologyAwareScheduling: use one of the two forms")
    if configuration.topology is not None:
        for complaint in dns_subdomain(configuration.topology.name):
            yield invalid("topology.name", configuration.topology.name, complaint)
    if configuration.topology_aware_scheduling.enabled:
        yield from _levels(configuration.topology_aware_scheduling)


def _levels(scheduling: TopologyAwareScheduling) -> Iterable[FieldError]:
    path = "topologyAwareScheduling.levels"
    if not scheduling.levels:
        yield required(path, "levels are required when topology is enabled")
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(scheduling.levels):
        where = f"{path}[{index}]"
        if level.domain and not is_domain(level.domain):
            yield invalid(f"{where}.domain", level.domain, f"must be one of [{' '.join(DOMAINS)}]")
        if level.domain == HOST and level.key != HOSTNAME:
            yield invalid(f"{where}.key", level.key, f"must be {HOSTNAME}, the label that kubelets put on their hosts")
        if level.domain and level.domain in domains:
            yield duplicate(f"{where}.domain", level.domain)
        if level.key and level.key in keys:
            yield duplicate(f"{where}.key", level.key)
        domains.add(level.domain)
        keys.add(level.key)


def _scheduler(scheduler: Scheduler, backends: Sequence[str]) -> Iterable[FieldError]:
    names: list[str] = []
    for index, profile in enumerate(scheduler.profiles):
        path = f"scheduler.profiles[{index}]"
        if profile.name and profile.name not in backends:
            yield invalid(f"{path}.name", profile.name, f"must be one of [{' '.join(sorted(backends))}]")
        if profile.name in names:
            yield duplicate(f"{path}.name", profile.name)
        names.append(profile.name)
        if profile.name == SCHEDULER_KAI:
            yield from _kai(profile.config, f"{path}.config")
    yield from _default_profile(scheduler, names)


def _kai(config: Mapping[str, Any], path: str) -> Iterable[FieldError]:
    known = [one.encode_name for one in msgspec.structs.fields(KaiConfig)]
    for key, value in config.items():
        if key not in known:
            yield forbidden(f"{path}.{key}", f"unknown field; known: {', '.join(known)}")
        elif not isinstance(value, bool):
            yield invalid(f"{path}.{key}", value, "must be true or false")


def _default_profile(scheduler: Scheduler, names: Sequence[str]) -> Iterable[FieldError]:
    marked = [(index, one.name) for index, one in enumerate(scheduler.profiles) if one.default]
    for index, _ in marked[1:]:
        yield forbidden(f"scheduler.profiles[{index}].default", f"only one profile may be the default: {marked[0][1]}")
    wanted = scheduler.default_profile_name
    if wanted and wanted not in names:
        yield invalid("scheduler.defaultProfileName", wanted, "default profile must be one of the configured profiles")
    elif wanted and marked and wanted != marked[0][1]:
        detail = f"differs from the profile that is marked as default: {marked[0][1]}"
        yield invalid("scheduler.defaultProfileName", wanted, detail)
