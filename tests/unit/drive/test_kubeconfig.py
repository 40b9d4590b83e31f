"""Kubeconfig files and in-cluster settings: what is understood, what is refused, and in which words."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube_apimachinery.system_clock import SystemClock
from spinney.drive.client.config.credentials import Connection
from spinney.drive.client.config.kubeconfig import (
    connection_of,
    find_connection,
    in_cluster_connection,
    kubeconfig_paths,
    read_kubeconfig,
)
from spinney.drive.client.errors import ConfigError, CredentialError

CLOCK = SystemClock()


def config(**changes: Any) -> dict[str, Any]:
    plain = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com:6443"}}],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
    }
    return plain | changes


def with_user(**user: Any) -> dict[str, Any]:
    return config(users=[{"name": "u", "user": user}])


def with_cluster(**cluster: Any) -> dict[str, Any]:
    return config(clusters=[{"name": "c", "cluster": {"server": "https://api.example.com"} | cluster}])


def write(path: Path, content: Any) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def load(path: Path, content: Any, context: str | None = None) -> Connection:
    return connection_of(read_kubeconfig([write(path / "config", content)]), CLOCK, context)


async def authorization(connection: Connection) -> str:
    return (await connection.credentials.grant()).headers.get("authorization", "")


async def test_the_current_context_gives_server_namespace_and_token(tmp_path: Path) -> None:
    connection = load(tmp_path, config())
    assert (connection.server, connection.namespace) == ("https://api.example.com:6443", "team")
    assert await authorization(connection) == "Bearer secret-token"


def test_no_secret_is_shown(tmp_path: Path) -> None:
    assert "secret-token" not in repr(load(tmp_path, config()))


async def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    content = config()
    content["contexts"].append({"name": "other", "context": {"cluster": "c"}})
    connection = load(tmp_path, content, "other")
    assert (connection.namespace, await authorization(connection)) == ("default", "")


async def test_files_are_merged_and_the_first_to_say_something_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "one", {"current-context": "main", "users": [{"name": "u", "user": {"token": "first"}}]})
    second = write(tmp_path / "two", config())
    env = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    connection = find_connection(CLOCK, env=env)
    assert connection.server == "https://api.example.com:6443"
    assert await authorization(connection) == "Bearer first"


def test_a_file_given_by_name_must_exist_and_the_home_directory_is_the_last_resort(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: cannot be read"):
        find_connection(CLOCK, kubeconfig=tmp_path / "nowhere", env={})
    (tmp_path / ".kube").mkdir()
    home = write(tmp_path / ".kube" / "config", config())
    assert kubeconfig_paths(None, {"HOME": str(tmp_path)}) == [home]


def test_without_any_configuration_the_choices_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KUBECONFIG"):
        find_connection(CLOCK, env={"HOME": str(tmp_path)})


async def test_files_named_in_a_kubeconfig_are_found_beside_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"CA")
    (tmp_path / "user.pem").write_bytes(b"CERT")
    (tmp_path / "user.key").write_bytes(b"KEY")
    (tmp_path / "token").write_text("from-file\n")
    content = with_cluster(**{"certificate-authority": "ca.pem", "tls-server-name": "inner"})
    content["users"] = [
        {"name": "u", "user": {"client-certificate": "user.pem", "client-key": "user.key", "tokenFile": "token"}}
    ]
    connection = load(tmp_path, content)
    grant = await connection.credentials.grant()
    assert (connection.ca, connection.tls_server_name) == (b"CA", "inner")
    assert grant.certificate is not None
    assert (grant.certificate.certificate, grant.certificate.key) == (b"CERT", b"KEY")
    assert grant.headers == {"authorization": "Bearer from-file"}


async def test_data_in_place_wins_over_files(tmp_path: Path) -> None:
    inline = base64.b64encode(b"INLINE").decode()
    content = with_cluster(**{"certificate-authority": "missing.pem", "certificate-authority-data": inline})
    assert load(tmp_path, content).ca == b"INLINE"


async def test_a_password_is_sent_as_basic_authentication(tmp_path: Path) -> None:
    connection = load(tmp_path, with_user(username="me", password="pw"))
    assert await authorization(connection) == "Basic " + base64.b64encode(b"me:pw").decode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            config(**{"current-context": "nope"}),
            r"config: current-context: found no context 'nope', expected one of main",
        ),
        (config(**{"current-context": ""}), r"current-context: found none, expected one of main"),
        (config(clusters=[]), r"contexts\[main\].context.cluster: found 'c', expected one, but the files name none"),
        (config(users=[]), r"contexts\[main\].context.user: found 'u'"),
        (config(users=[{"name": "u"}, {"name": "u"}]), r"users: found the name 'u' twice"),
        (
            config(users=[{"name": "u", "user": {"token": 5}}]),
            r"Expected `str \| null`, got `int` - at `\$.users\[0\].user.token`",
        ),
        (
            with_cluster(server="api.example.com"),
            r"clusters\[c\].cluster.server: found 'api.example.com', expected a URL",
        ),
        (with_cluster(server="https://u:p@api"), r"cluster.server"),
        (with_cluster(**{"proxy-url": "http://p"}), r"cluster.proxy-url: found one, expected none: proxies are not"),
        (
            with_cluster(**{"insecure-skip-tls-verify": True, "certificate-authority-data": "QQ=="}),
            r"insecure-skip-tls",
        ),
        (with_cluster(**{"certificate-authority-data": "!!"}), r"certificate-authority-data: found no base64"),
        (with_cluster(**{"certificate-authority": "no.pem"}), r"certificate-authority: .*no.pem cannot be read"),
        (with_user(**{"client-certificate-data": "QQ=="}), r"user.client-key: found none, expected .* together"),
        (with_user(**{"auth-provider": {"name": "gcp"}}), r"users\[u\].user.auth-provider: found one, expected"),
        (with_user(token="t", **{"as": "root"}), r"user.as: found one, expected none: impersonation"),
        (with_user(token="t", username="me"), r"user.username: found one beside a token"),
        (with_user(exec={"command": "x", "apiVersion": "v9"}), r"exec.apiVersion: found 'v9', expected client.auth"),
        (
            with_user(exec={"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}),
            r"exec.interactiveMode: found None, expected Never or IfAvailable or Always",
        ),
        ("just text", r"config: found str, expected a kubeconfig with clusters, users and contexts"),
    ],
)
def test_a_refusal_names_file_field_and_what_is_allowed(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load(tmp_path, content)
    assert str(tmp_path / "config") in str(caught.value)


def test_what_is_no_yaml_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a: [")
    with pytest.raises(ConfigError, match="config:2:1: not YAML: "):
        read_kubeconfig([tmp_path / "config"])


def test_what_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="config: is not UTF-8 text: invalid start byte at byte 3"):
        read_kubeconfig([tmp_path / "config"])


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class TestInCluster:
    @pytest.fixture
    def account(self, tmp_path: Path) -> Path:
        (tmp_path / "token").write_text("pod-token")
        (tmp_path / "ca.crt").write_bytes(b"CA")
        (tmp_path / "namespace").write_text("mine\n")
        return tmp_path

    async def test_a_pod_finds_its_server_token_and_namespace(self, account: Path) -> None:
        connection = in_cluster_connection(CLOCK, IN_POD, account)
        assert (connection.server, connection.ca, connection.namespace) == ("https://10.0.0.1:443", b"CA", "mine")
        assert await authorization(connection) == "Bearer pod-token"

    def test_an_ipv6_address_is_put_in_brackets(self, account: Path) -> None:
        env = IN_POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
        assert in_cluster_connection(CLOCK, env, account).server == "https://[fd00::1]:443"

    async def test_a_rotated_token_is_picked_up(self, account: Path) -> None:
        class Passing:
            seconds = 0.0

            def now(self) -> float:
                return self.seconds

            def monotonic(self) -> float:
                return self.seconds

        clock = Passing()
        connection = in_cluster_connection(clock, IN_POD, account)
        await authorization(connection)
        (account / "token").write_text("rotated")
        assert await authorization(connection) == "Bearer pod-token"
        clock.seconds = 61
        assert await authorization(connection) == "Bearer rotated"

    async def test_an_empty_or_missing_token_is_an_error_that_names_the_file(self, account: Path) -> None:
        connection = in_cluster_connection(CLOCK, IN_POD, account)
        (account / "token").write_text("")
        with pytest.raises(CredentialError, match="token: found an empty file"):
            await connection.credentials.grant()
        (account / "token").unlink()
        with pytest.raises(CredentialError, match="found no readable token"):
            await connection.credentials.grant()

    def test_outside_of_a_pod_the_missing_variables_are_named(self, account: Path) -> None:
        with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
            in_cluster_connection(CLOCK, {}, account)
