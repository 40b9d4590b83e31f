"""From the text of the file to a valid configuration, or to every problem in it.

Never stops at the first problem, and never lets a misspelled field pass as absent.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from kube_apimachinery.duration import DurationError, nanoseconds
from kube_apimachinery.field_errors import (
    OMITTED,
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kube_apimachinery.name_validation import dns_subdomain
from spinney.api.documents import DocumentError, read_document
from spinney.api.domains import DOMAINS, HOST, is_domain
from spinney.api.labels import HOSTNAME, SCHEDULER_DEFAULT, SCHEDULER_KAI
from spinney.api.operator_configuration.model import (
    API_VERSION,
    KIND,
    Consolidation,
    Debugging,
    KaiConfig,
    LeaderElection,
    OperatorConfiguration,
    Part,
    Profile,
    Scheduler,
    TopologyAwareScheduling,
    Webhooks,
)

# What a configuration must fulfil beyond its types (C2, C6).

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
        elif key == "placementStrategy":
            yield from _placement_strategy(value, f"{path}.{key}")
        elif key == "consolidation":
            yield from _consolidation(value, f"{path}.{key}")
        elif not isinstance(value, bool):
            yield invalid(f"{path}.{key}", value, "must be true or false")


def _placement_strategy(value: Any, path: str) -> Iterable[FieldError]:
    if not isinstance(value, dict):
        yield invalid(path, value, "must be an object with the fields gpu and cpu")
        return
    for key, strategy in value.items():
        if key not in ("gpu", "cpu"):
            yield forbidden(f"{path}.{key}", "unknown field; known: gpu, cpu")
        elif strategy not in ("binpack", "spread"):
            yield not_supported(f"{path}.{key}", strategy, ["binpack", "spread"])


def _consolidation(value: Any, path: str) -> Iterable[FieldError]:
    known = [one.encode_name for one in msgspec.structs.fields(Consolidation)]
    if not isinstance(value, dict):
        yield invalid(path, value, f"must be an object with the fields {', '.join(known)}")
        return
    for key, given in value.items():
        if key not in known:
            yield forbidden(f"{path}.{key}", f"unknown field; known: {', '.join(known)}")
        elif key == "enabled" and not isinstance(given, bool):
            yield invalid(f"{path}.{key}", given, "must be true or false")
        elif key != "enabled" and (not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= 10**6):
            yield invalid(f"{path}.{key}", given, "must be a whole number from 0 to 1000000")


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


BACKENDS = (SCHEDULER_KAI, SCHEDULER_DEFAULT)
"""The scheduler back-ends that come with the operator."""

S = TypeVar("S", bound=msgspec.Struct)


class ConfigurationError(ValueError):
    """The file cannot be used; one line for each problem, each naming its field."""

    def __init__(self, problems: Sequence[FieldError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


def load_configuration(text: bytes | str, backends: Sequence[str] = BACKENDS) -> OperatorConfiguration:
    """The configuration in a YAML text; an empty one is all defaults. `backends` may be named by profiles."""
    document = _parsed(text)
    problems: list[FieldError] = []
    configuration = _completed(_read(OperatorConfiguration, document, "", problems))
    problems += check(configuration, document, backends)
    if problems:
        raise ConfigurationError(problems)
    return configuration


def fields_given(text: bytes | str) -> frozenset[str]:
    """The fields of the whole file that a text which can be used has values for."""
    return frozenset(key for key, value in _parsed(text).items() if value is not None)


def _parsed(text: bytes | str) -> dict[str, Any]:
    try:
        document = read_document(text)
    except DocumentError as error:
        raise ConfigurationError([invalid("<file>", OMITTED, _words(error))]) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        found = type(document).__name__
        raise ConfigurationError([FieldError("<file>", ErrorType.TYPE_INVALID, found, "must be an object")])
    return document


def _words(error: DocumentError) -> str:
    return error.problem if error.column is None else f"line {error.line}, column {error.column}: {error.problem}"


def _completed(configuration: OperatorConfiguration) -> OperatorConfiguration:
    """The default scheduler is always among the profiles."""
    scheduler = configuration.scheduler
    if any(profile.name == SCHEDULER_DEFAULT for profile in scheduler.profiles):
        return configuration
    profiles = (*scheduler.profiles, Profile(name=SCHEDULER_DEFAULT))
    return msgspec.structs.replace(configuration, scheduler=msgspec.structs.replace(scheduler, profiles=profiles))


def _read(kind: type[S], given: Any, path: str, problems: list[FieldError]) -> S:
    """A part with what could be read of it; what could not has its default, and a problem."""
    if not isinstance(given, dict):
        problems.append(FieldError(path, ErrorType.TYPE_INVALID, given, "must be an object"))
        given = {}
    fields = {one.encode_name: one for one in msgspec.structs.fields(kind)}
    for key in given:
        if key not in fields:
            known = ", ".join(sorted(fields))
            problems.append(
                FieldError(_at(path, str(key)), ErrorType.FORBIDDEN, None, f"unknown field; known: {known}")
            )
    values: dict[str, Any] = {}
    for key, one in fields.items():
        where = _at(path, key)
        if given.get(key) is not None:
            read = _value(one.type, given[key], where, problems)
            if read is not None:
                values[one.name] = read
        elif one.required:
            problems.append(FieldError(where, ErrorType.REQUIRED))
        if one.required and one.name not in values:
            values[one.name] = ""
    return kind(**values)


def _value(wanted: Any, given: Any, path: str, problems: list[FieldError]) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        wanted = next(one for one in get_args(wanted) if one is not types.NoneType)
    item = get_args(wanted)[0] if get_origin(wanted) is tuple else None
    if _is_part(wanted):
        return _read(wanted, given, path, problems)
    if item is not None and _is_part(item):
        return _each(given, path, problems, lambda one, where: _read(item, one, where, problems))
    try:
        return msgspec.convert(given, wanted)
    except msgspec.ValidationError as error:
        allowed = get_args(wanted) if isinstance(given, str) else ()
        detail = (
            f"must be one of [{' '.join(allowed)}]" if allowed and item is None else str(error).partition(" - at")[0]
        )
        problems.append(invalid(path, given, detail))
        return None


def _each(given: Any, path: str, problems: list[FieldError], read: Callable[[Any, str], Any]) -> tuple[Any, ...] | None:
    if not isinstance(given, list):
        problems.append(FieldError(path, ErrorType.TYPE_INVALID, given, "must be a list"))
        return None
    return tuple(_known(read(one, f"{path}[{index}]") for index, one in enumerate(given)))


def _known(values: Iterable[Any]) -> Iterable[Any]:
    return (value for value in values if value is not None)


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
