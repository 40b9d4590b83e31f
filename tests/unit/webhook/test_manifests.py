"""The manifests as they are printed: rights without wildcards, webhooks that spare namespaces, harmless pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from spinney.api.roles import ROLES, Grant, rbac_objects
from spinney.cli.main import cli

Json = dict[str, Any]


def printed(*words: str) -> list[Json]:
    done = CliRunner().invoke(cli, ["manifests", *words])
    assert done.exit_code == 0, done.output
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(found: list[Json], *kinds: str) -> list[Json]:
    return [each for each in found if each["kind"] in kinds]


def rules(role: str) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [
        (verb, one.group, resource, one.names)
        for one in (*ROLES[role].cluster, *ROLES[role].own_namespace)
        for resource in one.resources
        for verb in one.verbs
    ]


@pytest.mark.parametrize("role", ROLES)
def test_c8_each_role_has_an_account_and_rights_without_wildcards(role: str) -> None:
    for obj in of_kind(rbac_objects(), "Role", "ClusterRole"):
        for rule in obj["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
    accounts = of_kind(rbac_objects(), "ServiceAccount")
    assert role in [each["metadata"]["name"] for each in accounts]
    bindings = of_kind(rbac_objects(), "ClusterRoleBinding", "RoleBinding")
    own = [each for each in bindings if each["subjects"][0]["name"] == role]
    assert all(len(each["subjects"]) == 1 for each in own)
    assert f"spinney-{role}" in [each["roleRef"]["name"] for each in own]


def test_b9_an_idle_installation_asks_for_less_than_half_a_core_and_two_gigabytes() -> None:
    """Measured on a real node: 37 to 68 MiB for a role that has nothing to do."""
    cpu_m = memory_mi = 0
    for deployment in of_kind(printed("deployments"), "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        asked, replicas = container["resources"]["requests"], deployment["spec"]["replicas"]
        cpu_m += replicas * int(asked["cpu"].removesuffix("m"))
        memory_mi += replicas * int(asked["memory"].removesuffix("Mi"))
    assert (cpu_m < 500, memory_mi < 2048) == (True, True), (cpu_m, memory_mi)


@pytest.mark.parametrize("role", ROLES)
def test_c8_no_role_reads_secrets_that_are_not_its_own(role: str) -> None:
    read = [(verb, names) for verb, group, resource, names in rules(role) if (group, resource) == ("", "secrets")]
    assert all(verb == "create" or names for verb, names in read)


def test_c8_topologies_are_the_operators_to_change_and_others_to_read() -> None:
    """For the Dynamo part the webhook reads them, its controller never does (D7)."""

    def verbs(role: str, resource: str) -> set[str]:
        return {verb for verb, group, found, _ in rules(role) if (group, found) == ("grove.io", resource)}

    assert verbs("operator", "clustertopologies") == {"get", "list", "watch", "create", "patch", "delete"}
    assert verbs("operator", "clustertopologies/finalizers") == {"update"}
    for role in set(ROLES) - {"operator"}:
        assert verbs(role, "clustertopologies") <= {"get", "list", "watch"}
        assert not verbs(role, "clustertopologies/finalizers")
    assert verbs("webhook", "clustertopologies") == {"get"}
    assert not verbs("dynamo", "clustertopologies")
    for role in ("operator", "webhook", "scheduler", "dashboard", "dynamo"):
        assert verbs(role, "clustertopologybindings") == verbs(role, "clustertopologies"), (
            "T8: either kind alone is enough"
        )


def test_the_dashboard_only_looks() -> None:
    assert {verb for verb, *_ in rules("dashboard")} <= {"get", "list", "watch"}


@pytest.mark.parametrize(
    "wrong",
    [("grove.io", ("*",), ("get",), ()), ("", ("pods",), ("*",), ()), ("", ("secrets",), ("list",), ("mine",))],
    ids=["all resources", "all verbs", "a list of names"],
)
def test_a_right_that_cannot_be_meant_cannot_be_written(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"wildcard|names|verbs"):
        Grant(*wrong)


def test_versions_are_converted_where_a_webhook_is_shipped_and_only_there() -> None:
    def served(*words: str) -> tuple[str, list[bool]]:
        (found,) = [
            each
            for each in of_kind(printed(*words), "CustomResourceDefinition")
            if each["metadata"]["name"] == "dynamographdeployments.nvidia.com"
        ]
        spec = found["spec"]
        return spec["conversion"]["strategy"], [version["served"] for version in spec["versions"]]

    assert served("crds", "--without-webhook") == ("None", [False, True])
    assert served("crds") == served("webhooks") == served("all") == ("Webhook", [True, True])


def test_b9_without_a_configuration_topology_and_gangs_are_on_and_hosts_are_a_level() -> None:
    (config,) = of_kind(printed("deployments"), "ConfigMap")
    told = yaml.safe_load(config["data"]["operator.yaml"])
    levels = [{"domain": "host", "key": "kubernetes.io/hostname"}]
    assert told["topologyAwareScheduling"] == {"enabled": True, "levels": levels}
    assert told["scheduler"]["profiles"] == [{"name": "kai-scheduler", "default": True}]


def test_what_others_need_comes_first() -> None:
    kinds = [each["kind"] for each in printed("all")]
    order = ["CustomResourceDefinition", "Namespace", "ServiceAccount", "ValidatingWebhookConfiguration", "Deployment"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)


def test_webhooks_spare_the_namespace_of_the_roles_and_those_of_the_system() -> None:
    found = of_kind(
        printed("webhooks", "-n", "gangs"), "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
    )
    hooks = [hook for each in found for hook in each["webhooks"]]
    namespaced = [hook for hook in hooks if hook["rules"][0]["scope"] == "Namespaced"]
    assert namespaced
    for hook in namespaced:
        (outside,) = hook["namespaceSelector"]["matchExpressions"]
        assert set(outside["values"]) == {"gangs", "kube-node-lease", "kube-public", "kube-system"}
    for hook in hooks:
        assert hook["clientConfig"]["service"]["namespace"] == "gangs"
        assert "caBundle" not in hook["clientConfig"], "filled in by the webhook, kept by kubectl apply"


def test_a_configuration_with_an_authorizer_guards_what_the_operator_made(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("authorizer: {enabled: true}")
    (found,) = of_kind(printed("webhooks", "--config", str(tmp_path / "config.yaml")), "ValidatingWebhookConfiguration")
    assert "validate.managed.spinney.dev" in [hook["name"] for hook in found["webhooks"]]


def test_c7_another_configuration_restarts_the_pods(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("logLevel: debug")
    before, after = (
        {each["spec"]["template"]["metadata"]["annotations"]["spinney.dev/configuration"]}
        for words in ((), ("--config", str(tmp_path / "config.yaml")))
        for each in of_kind(printed("deployments", *words), "Deployment")[:1]
    )
    assert before != after


def test_a_configuration_is_completed_for_pods_and_kept_otherwise(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("leaderElection: {leaseDuration: 30s}\nserver: {metrics: {port: 9000}}")
    (found,) = of_kind(printed("deployments", "--config", str(tmp_path / "config.yaml")), "ConfigMap")
    told = yaml.safe_load(found["data"]["operator.yaml"])
    assert told["leaderElection"] == {"leaseDuration": "30s", "enabled": True}
    assert told["server"]["metrics"] == {"port": 9000, "bindAddress": "0.0.0.0"}


def test_a_wrong_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("topologyAwareScheduling: {enabled: true, levels: [{domain: shelf, key: a}]}")
    done = CliRunner().invoke(cli, ["manifests", "all", "--config", str(tmp_path / "config.yaml")])
    assert done.exit_code == 2
    assert "topologyAwareScheduling.levels" in done.output


def test_no_container_has_more_power_than_it_needs() -> None:
    for each in of_kind(printed("deployments"), "Deployment"):
        spec = each["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"livenessProbe", "readinessProbe", "resources"} <= set(container)
        assert spec["serviceAccountName"] == container["name"]


@pytest.mark.parametrize("role", ROLES)
def test_b9_a_role_that_starts_slowly_is_not_restarted_for_it(role: str) -> None:
    """Liveness counts from the first answer on; two minutes pass before a role that never answers is restarted."""
    deployments = of_kind(printed("deployments"), "Deployment")
    (found,) = [each for each in deployments if each["metadata"]["name"] == f"spinney-{role}"]
    container = found["spec"]["template"]["spec"]["containers"][0]
    probe = container["startupProbe"]
    assert probe["httpGet"] == container["livenessProbe"]["httpGet"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 120


def test_b9_tenants_are_given_our_kinds_by_the_roles_that_they_have() -> None:
    """Workloads to edit, what follows from them to view; nothing of the cluster, no status, no wildcard."""
    found = {each["metadata"]["name"]: each for each in of_kind(printed("rbac"), "ClusterRole")}
    view, edit = found["spinney-tenant-view"], found["spinney-tenant-edit"]
    aggregated = "rbac.authorization.k8s.io/aggregate-to-"
    assert [f"{aggregated}{name}" in view["metadata"]["labels"] for name in ("view", "edit", "admin")] == [True] * 3
    assert [f"{aggregated}{name}" in edit["metadata"]["labels"] for name in ("view", "edit", "admin")] == [
        False,
        True,
        True,
    ]
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    written = {resource for rule in edit["rules"] for resource in rule["resources"] if "delete" in rule["verbs"]}
    assert written == {"podcliquesets", "podgroups", "dynamographdeployments"}


@pytest.mark.parametrize("role", ROLES)
def test_b9_a_drain_takes_one_replica_of_a_role_at_a_time(role: str) -> None:
    found = {each["metadata"]["name"]: each["spec"] for each in of_kind(printed("all"), "PodDisruptionBudget")}
    deployments = {each["metadata"]["name"]: each["spec"] for each in of_kind(printed("all"), "Deployment")}
    assert found[f"spinney-{role}"]["maxUnavailable"] == 1
    assert found[f"spinney-{role}"]["selector"] == deployments[f"spinney-{role}"]["selector"]
