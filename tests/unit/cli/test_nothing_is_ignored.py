"""Every field of the configuration and every option of `spinney run` and `spinney up` does something, or is refused."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from spinney.api.operator_configuration import ConfigurationError, OperatorConfiguration, load_configuration
from spinney.api.operator_configuration.model import Part
from spinney.api.roles import rbac_objects
from spinney.cli.commands.run import run as run_group
from spinney.cli.commands.up import up
from spinney.cli.wiring.api_servers import StackOptions
from spinney.cli.wiring.install_manifests import deployment_objects, webhook_objects
from spinney.cli.wiring.roles.registry import DashboardOptions, RoleConfig, WebhookOptions
from spinney.cli.wiring.scheduler_choices import SchedulerChoices
from spinney.drive.client.config.credentials import Connection, Fixed, Grant
from spinney.drive.client.http.retries import RateLimitedTransport
from spinney.drive.client.http.transport import Response
from spinney.sim.event_loop import Sim, run
from spinney.whatif.inputs.operator_settings import names_of

SOURCE = Path(str(importlib.util.find_spec("spinney").submodule_search_locations[0]))  # type: ignore[union-attr,index]

HONOURED = {
    "apiVersion": "api/operator_configuration/loader.py",
    "kind": "api/operator_configuration/loader.py",
    "runtimeClientConnection.qps": "api/operator_configuration/model.py",
    "runtimeClientConnection.burst": "api/operator_configuration/model.py",
    "runtimeClientConnection.contentType": "api/operator_configuration/loader.py",
    "runtimeClientConnection.acceptContentTypes": "api/operator_configuration/loader.py",
    "leaderElection.enabled": "cli/wiring/roles/leader.py",
    "leaderElection.leaseDuration": "api/operator_configuration/model.py",
    "leaderElection.renewDeadline": "api/operator_configuration/model.py",
    "leaderElection.retryPeriod": "api/operator_configuration/model.py",
    "leaderElection.resourceLock": "api/operator_configuration/loader.py",
    "leaderElection.resourceName": "cli/wiring/roles/controllers.py",
    "leaderElection.resourceNamespace": "cli/wiring/roles/leader.py",
    "server.webhooks.bindAddress": "cli/wiring/roles/webhook.py",
    "server.webhooks.port": "cli/wiring/roles/webhook.py",
    "server.webhooks.serverCertDir": "cli/wiring/roles/webhook.py",
    "server.webhooks.secretName": "cli/wiring/roles/webhook.py",
    "server.webhooks.certProvisionMode": "cli/wiring/roles/webhook.py",
    "server.healthProbes.bindAddress": "cli/wiring/roles/runner.py",
    "server.healthProbes.port": "cli/wiring/roles/runner.py",
    "server.metrics.bindAddress": "cli/wiring/roles/runner.py",
    "server.metrics.port": "cli/wiring/roles/runner.py",
    "debugging.enableProfiling": "api/operator_configuration/loader.py",
    "controllers.podCliqueSet.concurrentSyncs": "drive/operator/settings_from_config.py",
    "controllers.podClique.concurrentSyncs": "drive/operator/settings_from_config.py",
    "controllers.podCliqueScalingGroup.concurrentSyncs": "drive/operator/settings_from_config.py",
    "controllers.podGang.concurrentSyncs": "drive/operator/settings_from_config.py",
    "logLevel": "cli/wiring/roles/runner.py",
    "logFormat": "cli/wiring/roles/runner.py",
    "authorizer.enabled": "core/admission/settings.py",
    "authorizer.exemptServiceAccountUserNames": "core/admission/settings.py",
    "topologyAwareScheduling.enabled": "api/operator_configuration/model.py",
    "topologyAwareScheduling.levels": "drive/operator/settings_from_config.py",
    "topologyAwareScheduling.autoPreferred": "drive/operator/settings_from_config.py",
    "topologyAwareScheduling.protectUsed": "core/admission/settings.py",
    "topology.enabled": "api/operator_configuration/model.py",
    "topology.name": "api/operator_configuration/model.py",
    "network.autoMNNVLEnabled": "drive/operator/settings_from_config.py",
    "scheduler.profiles": "drive/operator/settings_from_config.py",
    "scheduler.defaultProfileName": "api/operator_configuration/model.py",
}
"""Where each field has its effect."""
INERT = {"debugging.pprofBindHost", "debugging.pprofBindPort"}
"""Of an endpoint that cannot be enabled: as without effect as upstream's while it is disabled."""


def fields(part: type[msgspec.Struct], path: str = "") -> Iterator[tuple[str, str]]:
    """Every field of the file that holds a value, with the name of its attribute."""
    for one in msgspec.structs.fields(part):
        where = f"{path}{one.encode_name}"
        kinds = [one.type, *getattr(one.type, "__args__", ())]
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Part)]
        if inner and getattr(one.type, "__origin__", None) is not tuple:
            yield from fields(inner[0], f"{where}.")
        else:
            yield where, one.name


@cache
def reads(path: Path) -> frozenset[str]:
    """Names of attributes that a module reads."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.attr for node in found if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


def test_c1_every_field_of_the_configuration_says_what_honours_it() -> None:
    found = dict(fields(OperatorConfiguration))
    assert set(found) == set(HONOURED) | INERT


@pytest.mark.parametrize("field", HONOURED)
def test_c1_a_field_is_read_where_it_is_said_to_be(field: str) -> None:
    assert dict(fields(OperatorConfiguration))[field] in reads(SOURCE / HONOURED[field])


@pytest.mark.parametrize("options", [StackOptions, WebhookOptions, DashboardOptions, SchedulerChoices])
def test_every_option_that_is_handed_on_is_read(options: Any) -> None:
    modules = list((SOURCE / "cli").rglob("*.py"))
    everything = frozenset[str]().union(*map(reads, modules))
    assert {each.name for each in dataclasses.fields(options)} <= everything


def commands() -> Iterator[tuple[str, click.Command]]:
    yield "up", up
    for name, command in run_group.commands.items():
        yield f"run {name}", command


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda each: each if isinstance(each, str) else "")
def test_every_option_of_a_command_is_used_by_it(name: str, command: click.Command) -> None:
    assert command.callback is not None
    module = importlib.import_module(command.callback.__module__)
    (function,) = [
        node
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == command.callback.__name__
    ]
    used = {node.id for each in function.body for node in ast.walk(each) if isinstance(node, ast.Name)}
    named = {argument.arg for argument in function.args.args}
    handed_on = {
        node.value
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    fields = {each.name for each in dataclasses.fields(SchedulerChoices)} if "SchedulerChoices" in used else set[str]()
    for parameter in command.params:
        assert parameter.name in (used if parameter.name in named else handed_on | fields), f"{name}: {parameter.name}"


# What was accepted and ignored


LOGGING = """
import logging, sys, structlog
from spinney.cli.wiring.process import log_to_stderr
log_to_stderr(logging.INFO, sys.argv[1])
structlog.get_logger("a").info("hello", gang="default/a")
logging.getLogger("b").info("below us")
"""


def test_log_lines_have_the_format_of_the_configuration() -> None:
    shown = {}
    for form in ("json", "text"):
        done = subprocess.run([sys.executable, "-c", LOGGING, form], capture_output=True, text=True, check=True)
        shown[form] = done.stderr.splitlines()
    assert [json.loads(line)["event"] for line in shown["json"]] == ["hello", "below us"]
    ours, theirs = shown["text"]
    assert "hello" in ours and "gang=default/a" in ours and not ours.startswith("{")
    assert "below us" in theirs


class Counting:
    def __init__(self) -> None:
        self.paths: list[str] = []

    async def request(self, method: str, path: str, **_: Any) -> Response:
        self.paths.append(path)
        return Response(200, {}, b"{}")

    async def close(self) -> None:
        pass


def test_a_client_sends_no_more_than_qps_and_burst_allow_and_leases_do_not_wait() -> None:
    async def main(sim: Sim) -> None:
        inner = Counting()
        paced = RateLimitedTransport(inner, sim.clock, 10.0, 5)  # type: ignore[arg-type]
        began_s = sim.clock.monotonic()
        for number in range(25):
            await paced.request("GET", f"/api/v1/pods/{number}")
        took_s = sim.clock.monotonic() - began_s
        assert 1.99 <= took_s <= 2.01
        await paced.request("PATCH", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b")
        assert sim.clock.monotonic() - began_s == took_s

    run(main)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", None),
        ("runtimeClientConnection: {qps: 50}", (50.0, 120)),
        ("runtimeClientConnection: {burst: 7}", (100.0, 7)),
        ("runtimeClientConnection: {qps: 50, burst: 0}", (50.0, 1)),
        ("runtimeClientConnection: {qps: -1, burst: 7}", None),
    ],
)
def test_c1_a_connection_is_limited_only_where_the_file_says_so(text: str, limit: tuple[float, int] | None) -> None:
    configuration = load_configuration(text)
    assert configuration.runtime_client_connection.limit == limit

    async def main() -> None:
        transport = RoleConfig(configuration, Connection("http://127.0.0.1:1", Fixed(Grant()))).connect()
        assert isinstance(transport, RateLimitedTransport) is (limit is not None)
        await transport.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("debugging: {enableProfiling: true}", "debugging.enableProfiling"),
        ("runtimeClientConnection: {qps: 0}", "runtimeClientConnection.qps"),
        ("runtimeClientConnection: {contentType: application/yaml}", "runtimeClientConnection.contentType"),
        ("runtimeClientConnection: {acceptContentTypes: a/b}", "runtimeClientConnection.acceptContentTypes"),
        ("leaderElection: {enabled: true, resourceLock: configmaps}", "leaderElection.resourceLock"),
        ("server: {webhooks: {secretName: No_Name}}", "server.webhooks.secretName"),
    ],
)
def test_c2_what_we_cannot_do_is_refused_by_the_name_of_its_field(text: str, field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}: "):
        load_configuration(text)


def test_both_content_types_may_be_accepted_where_one_is_ours() -> None:
    load_configuration(
        "runtimeClientConnection: {acceptContentTypes: 'application/vnd.kubernetes.protobuf,application/json'}"
    )


NAMED = """
server: {webhooks: {secretName: mine}}
leaderElection: {enabled: true, resourceName: leader, resourceNamespace: elsewhere}
"""


def test_the_secret_of_the_webhook_has_its_name_in_manifests_and_rights() -> None:
    configuration = load_configuration(NAMED)
    secrets = [each for each in webhook_objects("ns", configuration) if each["kind"] == "Secret"]
    assert [each["metadata"]["name"] for each in secrets] == ["mine"]
    rights = rbac_objects("ns", names_of(configuration))
    rules = [
        (each["metadata"]["namespace"], rule) for each in rights if each["kind"] == "Role" for rule in each["rules"]
    ]
    secret_rights = [(place, rule["resourceNames"]) for place, rule in rules if rule["resources"] == ["secrets"]]
    assert ("ns", ["mine"]) in secret_rights
    assert "spinney-webhook-certificates" not in [name for _, names in secret_rights for name in names]
    leases = {(place, *rule.get("resourceNames", [])) for place, rule in rules if rule["resources"] == ["leases"]}
    assert ("elsewhere", "leader") in leases
    assert {place for place, *_ in leases} == {"elsewhere"}


def test_certificates_of_somebody_else_are_mounted_from_their_secret() -> None:
    given = "server: {webhooks: {secretName: mine, certProvisionMode: manual, serverCertDir: /certs}}"
    configuration = load_configuration(given)
    assert not [each for each in webhook_objects("ns", configuration) if each["kind"] == "Secret"]
    (webhook,) = [
        each
        for each in deployment_objects("ns", "image", {}, configuration)
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", "spinney-webhook")
    ]
    pod = webhook["spec"]["template"]["spec"]
    assert {"name": "certificates", "secret": {"secretName": "mine"}} in pod["volumes"]
    mount = {"name": "certificates", "mountPath": "/certs", "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]
