"""Credentials from exec plugins: how they are asked, what they may answer, how long it counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from spinney.drive.client.config.credentials import Credentials
from spinney.drive.client.config.kubeconfig import connection_of, read_kubeconfig
from spinney.drive.client.errors import CredentialError

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"

PROGRAM = """
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
runs = here / "runs"
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
(here / "asked").write_text(os.environ["KUBERNETES_EXEC_INFO"])
(here / "args").write_text(json.dumps([sys.argv[1:], os.environ.get("EXTRA")]))
sys.stdout.write((here / "answer").read_text())
sys.exit(int((here / "code").read_text()) if (here / "code").exists() else 0)
"""


class Passing:
    seconds = 1_000_000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


class Plugin:
    """A plugin program in a directory, and the credentials of a kubeconfig that names it."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.clock = Passing()
        (directory / "plugin.py").write_text(PROGRAM)
        self.answers({"token": "t1"})
        exec_ = {
            "apiVersion": V1,
            "interactiveMode": "Never",
            "command": sys.executable,
            "args": [str(directory / "plugin.py"), "a b", "$HOME;rm"],
            "env": [{"name": "EXTRA", "value": "more"}],
        } | settings
        self.settings = exec_
        content = {
            "current-context": "m",
            "contexts": [{"name": "m", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {
                    "name": "c",
                    "cluster": {
                        "server": "https://api",
                        "certificate-authority-data": "Q0E=",
                        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
                    },
                }
            ],
            "users": [{"name": "u", "user": {"exec": exec_}}],
        }
        (directory / "config").write_text(yaml.safe_dump(content))

    @property
    def credentials(self) -> Credentials:
        return connection_of(read_kubeconfig([self.directory / "config"]), self.clock).credentials

    def answers(self, status: Any, api_version: str = V1) -> None:
        answer = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
        (self.directory / "answer").write_text(json.dumps(answer))

    @property
    def runs(self) -> int:
        return len((self.directory / "runs").read_text())


async def token(credentials: Credentials) -> str:
    return (await credentials.grant()).headers["authorization"]


async def test_a_plugin_is_run_with_its_arguments_as_they_are_and_never_by_a_shell(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    assert await token(plugin.credentials) == "Bearer t1"
    assert json.loads((tmp_path / "args").read_text()) == [["a b", "$HOME;rm"], "more"]
    asked = json.loads((tmp_path / "asked").read_text())
    assert asked == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_a_plugin_is_told_about_the_cluster_if_it_asks(tmp_path: Path) -> None:
    await token(Plugin(tmp_path, provideClusterInfo=True).credentials)
    cluster = json.loads((tmp_path / "asked").read_text())["spec"]["cluster"]
    assert cluster == {"server": "https://api", "certificate-authority-data": "Q0E=", "config": {"audience": "x"}}


async def test_v1beta1_needs_no_interactive_mode(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, apiVersion=V1BETA1, interactiveMode=None)
    plugin.answers({"token": "beta"}, V1BETA1)
    assert await token(plugin.credentials) == "Bearer beta"


async def test_a_credential_counts_until_it_is_about_to_expire(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers({"token": "t1", "expirationTimestamp": "1970-01-12T13:48:20Z"})  # 100 s from the clock's now
    credentials = plugin.credentials
    for passed_s, runs in ((0, 1), (80, 1), (91, 2)):
        plugin.clock.seconds = 1_000_000 + passed_s
        await token(credentials)
        assert plugin.runs == runs


async def test_a_credential_without_expiry_counts_until_the_server_refuses_it(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    credentials = plugin.credentials
    await token(credentials)
    await token(credentials)
    assert plugin.runs == 1
    plugin.answers({"token": "t2"})
    assert credentials.renew()
    assert await token(credentials) == "Bearer t2"


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers({"clientCertificateData": "CERT", "clientKeyData": "KEY"})
    grant = await plugin.credentials.grant()
    assert grant.certificate is not None
    assert (grant.certificate.certificate, grant.certificate.key, grant.headers) == (b"CERT", b"KEY", {})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("no json secret", "output is no ExecCredential"),
        ({"apiVersion": V1BETA1, "kind": "ExecCredential", "status": {"token": "secret"}}, "found .*v1beta1 Exec"),
        ({"apiVersion": V1, "kind": "ExecCredential"}, "status: found none"),
        ({"apiVersion": V1, "kind": "ExecCredential", "status": {}}, "found neither token nor certificate"),
        ({"apiVersion": V1, "kind": "ExecCredential", "status": {"clientKeyData": "secret"}}, "go together"),
        (
            {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "secret", "expirationTimestamp": "soon"}},
            "expirationTimestamp: found 'soon', expected RFC 3339",
        ),
    ],
)
async def test_a_bad_answer_is_refused_without_showing_it(tmp_path: Path, answer: Any, words: str) -> None:
    plugin = Plugin(tmp_path)
    (tmp_path / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    with pytest.raises(CredentialError, match=words) as caught:
        await plugin.credentials.grant()
    assert "secret" not in str(caught.value)


async def test_a_failing_plugin_is_named_with_its_exit_code(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    (tmp_path / "code").write_text("7")
    with pytest.raises(CredentialError, match="found exit code 7"):
        await plugin.credentials.grant()


async def test_a_missing_plugin_is_named_with_its_hint(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, command="./not-there", installHint="install it so")
    with pytest.raises(CredentialError, match=r"not-there: cannot be started.*install it so"):
        await plugin.credentials.grant()


async def test_a_plugin_that_needs_a_terminal_is_refused_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CredentialError, match="interactiveMode is Always"):
        await Plugin(tmp_path, interactiveMode="Always").credentials.grant()
