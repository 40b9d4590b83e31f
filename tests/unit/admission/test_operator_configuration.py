"""C1, C2, C6: the configuration file of the operator, its two topology forms and its two ways to name a default."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.api.operator_configuration import ConfigurationError, PlacementStrategy, load_configuration
from spinney.core.admission.settings import settings_of
from spinney.core.expansion.backends import Capabilities
from spinney.drive.operator.settings_from_config import settings_of as operator_settings_of
from spinney.whatif.inputs.operator_settings import strategy_of

FULL = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
runtimeClientConnection: {qps: 50, burst: 60}
leaderElection: {enabled: true, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 5s}
server:
  webhooks: {bindAddress: 0.0.0.0, port: 9443, certProvisionMode: manual}
  healthProbes: {port: 9444}
  metrics: {port: 9445}
debugging: {enableProfiling: false}
controllers:
  podCliqueSet: {concurrentSyncs: 3}
  podClique: {concurrentSyncs: 4}
logLevel: debug
logFormat: text
authorizer: {enabled: true, exemptServiceAccountUserNames: [a]}
network: {autoMNNVLEnabled: true}
topologyAwareScheduling:
  enabled: true
  autoPreferred: Always
  protectUsed: false
  levels:
  - {domain: zone, key: topology.kubernetes.io/zone}
  - {domain: host, key: kubernetes.io/hostname}
scheduler:
  profiles:
  - name: kai-scheduler
    config: {createTopologyResources: false, numa: false, requireQueue: true, placementStrategy: {cpu: spread}}
    default: true
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(text)
    assert str(refused.value).splitlines() == [str(problem) for problem in refused.value.problems]
    return [str(problem) for problem in refused.value.problems]


def tas(*levels: tuple[str, str]) -> str:
    listed = [{"domain": domain, "key": key} for domain, key in levels]
    return yaml.safe_dump({"topologyAwareScheduling": {"enabled": True, "levels": listed}})


def test_c1_every_field_is_read() -> None:
    found = load_configuration(FULL)
    assert found.leader_election.lease_duration_s == 30.0
    assert (found.server.webhooks.port, found.server.health_probes.port, found.server.metrics.port) == (
        9443,
        9444,
        9445,
    )
    assert found.server.webhooks.cert_provision_mode == "manual"
    assert (found.controllers.pod_clique_set.concurrent_syncs, found.controllers.pod_gang.concurrent_syncs) == (3, 5)
    assert (found.log_level, found.log_format, found.network.auto_mnnvl_enabled) == ("debug", "text", True)
    assert found.authorizer.exempt_service_account_user_names == ("a",)
    assert [level.domain for level in found.topology_aware_scheduling.levels] == ["zone", "host"]
    assert found.topology_aware_scheduling.auto_preferred == "Always"
    assert found.topology_aware_scheduling.protect_used is False
    profile = found.profile("kai-scheduler")
    assert profile is not None
    assert (profile.kai.create_topology_resources, profile.kai.numa) == (False, False)
    assert profile.kai.placement_strategy == PlacementStrategy(gpu="binpack", cpu="spread")
    assert settings_of(found).requires_queue and not settings_of(load_configuration("")).requires_queue


def test_c1_an_empty_file_has_the_defaults() -> None:
    found = load_configuration("")
    assert (found.topology_enabled, found.default_topology, found.default_profile) == (
        False,
        "grove-topology",
        "default-scheduler",
    )
    assert (found.server.webhooks.port, found.log_level) == (2750, "info")
    election = found.leader_election
    assert (election.lease_duration_s, election.renew_deadline_s, election.retry_period_s) == (15, 10, 2)
    assert not election.gives_durations


DEFAULTS = {
    "marked": "profiles: [{name: kai-scheduler, default: true}]",
    "named": "{profiles: [{name: kai-scheduler}], defaultProfileName: kai-scheduler}",
    "both, agreeing": "{profiles: [{name: kai-scheduler, default: true}], defaultProfileName: kai-scheduler}",
}


@pytest.mark.parametrize("row", DEFAULTS)
def test_c1_both_ways_to_name_the_default_profile_are_read(row: str) -> None:
    found = load_configuration(f"scheduler: {DEFAULTS[row]}" if row != "marked" else f"scheduler:\n  {DEFAULTS[row]}")
    assert found.default_profile == "kai-scheduler"
    assert [profile.name for profile in found.scheduler.profiles] == ["kai-scheduler", "default-scheduler"]


def test_c5_topology_resources_are_on_unless_switched_off() -> None:
    profile = load_configuration("scheduler: {profiles: [{name: kai-scheduler}]}").profile("kai-scheduler")
    assert profile is not None
    assert profile.kai.create_topology_resources


def test_c2_topology_may_be_on_without_a_topology_of_the_operator() -> None:
    """As in Grove: sets then name the ClusterTopologies, or bindings, that admins make."""
    found = load_configuration(tas())
    assert (found.topology_enabled, found.writes_default_topology) == (True, False)
    told = operator_settings_of(found)
    assert (told.topology_enabled, told.levels, told.needs_default) == (True, (), False)
    assert not settings_of(found).writes_default


HOST = ("host", "kubernetes.io/hostname")
BAD: dict[str, tuple[str, list[str]]] = {
    "an unknown domain": (
        tas(("pod", "a")),
        [
            'topologyAwareScheduling.levels[0].domain: Invalid value: "pod": '
            "must be one of [region zone datacenter block rack host numa]"
        ],
    ),
    "a domain twice": (
        tas(("rack", "a"), ("rack", "b")),
        ['topologyAwareScheduling.levels[1].domain: Duplicate value: "rack"'],
    ),
    "a key twice": (
        tas(("zone", "a"), ("rack", "a")),
        ['topologyAwareScheduling.levels[1].key: Duplicate value: "a"'],
    ),
    "another key for hosts": (
        tas(("host", "example.com/host")),
        [
            'topologyAwareScheduling.levels[0].key: Invalid value: "example.com/host": '
            "must be kubernetes.io/hostname, the label that kubelets put on their hosts"
        ],
    ),
    "both forms": (
        tas(HOST) + "topology: {enabled: true}\n",
        ["topology: Forbidden: must not be set together with topologyAwareScheduling: use one of the two forms"],
    ),
    "a misspelled field": (
        "topologyAwareScheduling: {enable: true}",
        [
            "topologyAwareScheduling.enable: Forbidden: unknown field; known: autoPreferred, enabled, levels, "
            "protectUsed"
        ],
    ),
    "a wrong type": (
        "topologyAwareScheduling: {enabled: 5}",
        ["topologyAwareScheduling.enabled: Invalid value: 5: Expected `bool`, got `int`"],
    ),
    "not an object": ("server: 5", ["server: Invalid value: 5: must be an object"]),
    "a list at the top": ("[a]", ['<file>: Invalid value: "list": must be an object']),
    "another kind": ("kind: Pod", ['kind: Invalid value: "Pod": must be OperatorConfiguration']),
    "a port": (
        "server: {metrics: {port: 70000}}",
        ["server.metrics.port: Invalid value: 70000: must be between 0 and 65535"],
    ),
    "no workers": (
        "controllers: {podGang: {concurrentSyncs: 0}}",
        ["controllers.podGang.concurrentSyncs: Invalid value: 0: must be greater than 0"],
    ),
    "a log level": ("logLevel: loud", ['logLevel: Invalid value: "loud": must be one of [debug info error]']),
    "a burst": (
        "runtimeClientConnection: {burst: -1}",
        ["runtimeClientConnection.burst: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a lease that ends too early": (
        "leaderElection: {enabled: true, leaseDuration: 5s}",
        ['leaderElection.leaseDuration: Invalid value: "5s": must be greater than renewDeadline, which is 10s'],
    ),
    "a renewal that is tried too late": (
        "leaderElection: {enabled: true, retryPeriod: 10s}",
        ['leaderElection.renewDeadline: Invalid value: "10s": must be greater than retryPeriod, which is 10s'],
    ),
    "a duration": (
        "leaderElection: {retryPeriod: soon}",
        [
            'leaderElection.retryPeriod: Invalid value: "soon": must be a duration, for instance 15s: '
            'time: invalid duration "soon"'
        ],
    ),
    "an unknown profile": (
        "scheduler: {profiles: [{name: volcano}]}",
        ['scheduler.profiles[0].name: Invalid value: "volcano": must be one of [default-scheduler kai-scheduler]'],
    ),
    "a profile twice": (
        "scheduler: {profiles: [{name: kai-scheduler}, {name: kai-scheduler}]}",
        ['scheduler.profiles[1].name: Duplicate value: "kai-scheduler"'],
    ),
    "two defaults": (
        "scheduler: {profiles: [{name: kai-scheduler, default: true}, {name: default-scheduler, default: true}]}",
        ["scheduler.profiles[1].default: Forbidden: only one profile may be the default: kai-scheduler"],
    ),
    "a default that is no profile": (
        "scheduler: {defaultProfileName: kai-scheduler}",
        [
            'scheduler.defaultProfileName: Invalid value: "kai-scheduler": '
            "default profile must be one of the configured profiles"
        ],
    ),
    "two ways that disagree": (
        "scheduler: {profiles: [{name: kai-scheduler, default: true}], defaultProfileName: default-scheduler}",
        [
            'scheduler.defaultProfileName: Invalid value: "default-scheduler": '
            "differs from the profile that is marked as default: kai-scheduler"
        ],
    ),
    "a field that KAI does not have": (
        "scheduler: {profiles: [{name: kai-scheduler, config: {createTopologies: true}}]}",
        [
            "scheduler.profiles[0].config.createTopologies: Forbidden: "
            "unknown field; known: createTopologyResources, numa, placementStrategy, requireQueue, consolidation"
        ],
    ),
    "strategies that there are not": (
        "scheduler: {profiles: [{name: kai-scheduler, config: {placementStrategy: {gpu: tight, npu: spread}}}]}",
        [
            'scheduler.profiles[0].config.placementStrategy.gpu: Unsupported value: "tight": '
            'supported values: "binpack", "spread"',
            "scheduler.profiles[0].config.placementStrategy.npu: Forbidden: unknown field; known: gpu, cpu",
        ],
    ),
    "a strategy for everything": (
        "scheduler: {profiles: [{name: kai-scheduler, config: {placementStrategy: spread}}]}",
        [
            'scheduler.profiles[0].config.placementStrategy: Invalid value: "spread": '
            "must be an object with the fields gpu and cpu"
        ],
    ),
    "moves that there are not": (
        "scheduler: {profiles: [{name: kai-scheduler, config: {consolidation: {enabled: 1, maxMoves: -1, pods: 2}}}]}",
        [
            "scheduler.profiles[0].config.consolidation.enabled: Invalid value: 1: must be true or false",
            "scheduler.profiles[0].config.consolidation.maxMoves: Invalid value: -1: "
            "must be a whole number from 0 to 1000000",
            "scheduler.profiles[0].config.consolidation.pods: Forbidden: "
            "unknown field; known: enabled, maxMoves, maxGPUs, everySeconds",
        ],
    ),
    "no name": ("scheduler: {profiles: [{}]}", ["scheduler.profiles[0].name: Required value"]),
}


@pytest.mark.parametrize("row", BAD)
def test_c2_what_is_wrong_is_told_by_its_field(row: str) -> None:
    text, expected = BAD[row]
    assert problems(text) == expected


def test_c2_every_problem_is_told_at_once() -> None:
    text = tas(("pod", "a"), ("host", "b")) + "logLevel: loud\nserver: {webhooks: {port: -1}}\n"
    assert [problem.partition(":")[0] for problem in problems(text)] == [
        "logLevel",
        "server.webhooks.port",
        "topologyAwareScheduling.levels[0].domain",
        "topologyAwareScheduling.levels[1].key",
    ]


def test_c2_other_keys_and_the_levels_of_a_switched_off_topology_are_not_judged() -> None:
    assert load_configuration(tas(("rack", "any thing"), HOST)).topology_enabled
    assert not load_configuration("topologyAwareScheduling: {levels: [{domain: pod, key: a}]}").topology_enabled


def test_c2_what_is_no_yaml_is_told() -> None:
    assert problems("a: [") == ["<file>: Invalid value: line 2, column 1: not YAML: did not find expected node content"]


def test_c6_the_first_form_names_an_existing_topology() -> None:
    found = load_configuration("topology: {enabled: true, name: mine}")
    assert (found.topology_enabled, found.default_topology, found.writes_default_topology) == (True, "mine", False)
    assert load_configuration("topology: {enabled: true}").default_topology == "grove-topology"


def test_c1_other_back_ends_may_be_allowed() -> None:
    text = "scheduler: {profiles: [{name: mine, config: {a: {b: 1}}, default: true}]}"
    found = load_configuration(text, backends=("mine", "default-scheduler"))
    assert found.scheduler.profiles[0].config == {"a": {"b": 1}}


def test_g10_settings_follow_the_configuration() -> None:
    found = settings_of(load_configuration(FULL), {"operator": "operator"})
    assert (found.topology_enabled, found.default_backend, found.mnnvl_enabled) == (True, "kai-scheduler", True)
    assert found.operator_users == {"operator"}
    assert not found.backends["kai-scheduler"].numa
    assert found.backends["kai-scheduler"].required_topology
    assert found.backends["default-scheduler"] == Capabilities()


WORDS = st.one_of(st.none(), st.booleans(), st.integers(-2, 70_000), st.text(max_size=4), st.just("15s"))
KEYS = st.sampled_from(
    [
        "apiVersion",
        "kind",
        "server",
        "webhooks",
        "port",
        "scheduler",
        "profiles",
        "name",
        "config",
        "default",
        "topology",
        "enabled",
        "levels",
        "domain",
        "key",
        "leaderElection",
        "leaseDuration",
        "topologyAwareScheduling",
        "controllers",
        "podGang",
        "concurrentSyncs",
        "logLevel",
        "network",
    ]
)
TREES = st.recursive(
    WORDS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)), max_leaves=15
)


@settings(max_examples=150, deadline=None)
@given(TREES)
def test_every_document_is_a_configuration_or_has_problems(document: object) -> None:
    try:
        load_configuration(yaml.safe_dump(document))
    except ConfigurationError as refused:
        assert refused.problems


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), ("binpack", "spread")),
        (("spread", None), ("spread", "spread")),
        ((None, "binpack"), ("binpack", "binpack")),
    ],
)
def test_f14_options_come_before_the_strategy_of_the_configuration(
    given: tuple[str | None, str | None], expected: tuple[str, str]
) -> None:
    text = "scheduler: {profiles: [{name: kai-scheduler, config: {placementStrategy: {cpu: spread}}}]}"
    found = strategy_of(load_configuration(text), *given)
    assert (found.gpu, found.cpu) == expected
    assert strategy_of(load_configuration("")) == PlacementStrategy()
