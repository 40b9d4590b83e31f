"""`spinney up --host`: TLS and tokens for whoever is not on loopback."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from stack_kit.spinney import Spinney, spinney

Up = Callable[..., Spinney]


def own_address() -> str | None:
    """An address of this machine that is not loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


@pytest.fixture(scope="module", params=["0.0.0.0", "own address"])
def open_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kubectl_program: Path
) -> Iterator[Spinney]:
    """One for all who only look."""
    host = request.param
    if host == "own address":
        host = own_address()
        if host is None or host.startswith("127."):
            pytest.skip("this machine has no address beside loopback")
    with spinney(tmp_path_factory.mktemp("up"), "--host", host, kubectl=kubectl_program) as started:
        yield started.ready()


def test_the_kubeconfig_verifies_and_works(open_stack: Spinney) -> None:
    assert open_stack.url.startswith("https://")
    cluster = open_stack.config["clusters"][0]["cluster"]
    assert "insecure-skip-tls-verify" not in cluster
    assert cluster["server"] == open_stack.url
    assert len(open_stack.get("nodes")["items"]) == 16


def test_a_copy_of_the_kubeconfig_works_anywhere(
    open_stack: Spinney, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "elsewhere" / "config"
    copy.parent.mkdir()
    copy.write_text(open_stack.kubeconfig.read_text())
    monkeypatch.setattr(open_stack, "kubeconfig", copy)
    assert len(open_stack.get("nodes")["items"]) == 16


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes", "/version", "/healthz", "/openapi/v3", "/", "/api/v1/pods?watch=true"]
)
def test_nobody_gets_in_without_a_token(open_stack: Spinney, path: str) -> None:
    status, body = open_stack.http("GET", path)
    assert (status, body["reason"]) == (401, "Unauthorized")
    assert open_stack.http("GET", path, token="wrong")[0] == 401


def test_loopback_needs_a_token_too_when_others_can_reach_it(up: Up) -> None:
    running = up("--host", "0.0.0.0").ready()
    port = running.url.rpartition(":")[2]
    trust = running._trust()["ssl_context"]
    with pytest.raises(HTTPError, match="401"):
        urllib.request.urlopen(f"https://127.0.0.1:{port}/api/v1/nodes", context=trust, timeout=60)
    wanted = urllib.request.Request(
        f"https://localhost:{port}/api/v1/nodes", headers={"Authorization": f"Bearer {running.token}"}
    )
    with urllib.request.urlopen(wanted, context=trust, timeout=60) as answer:
        assert len(json.load(answer)["items"]) == 16


def test_nothing_is_served_without_tls(open_stack: Spinney) -> None:
    host, _, port = open_stack.url.removeprefix("https://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP/1.1" not in plain.recv(4096)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
def test_old_tls_is_refused(open_stack: Spinney) -> None:
    host, _, port = open_stack.url.removeprefix("https://").rpartition(":")
    context = open_stack._trust()["ssl_context"]
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((host, int(port)), timeout=60) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain, server_hostname=host)


def test_a_kubeconfig_outlives_a_restart_with_a_data_directory(up: Up, tmp_path: Path) -> None:
    arguments = ("--host", "0.0.0.0", "--data-dir", str(tmp_path / "state"))
    first = up(*arguments).ready()
    port = first.url.rpartition(":")[2]
    first.stop()
    up(*arguments, "--port", port).ready()
    assert len(first.get("nodes")["items"]) == 16, "the kubeconfig of the first start"


def test_loopback_is_the_default_and_nothing_else_listens(up: Up) -> None:
    running = up().ready()
    address = own_address()
    if address is None or address.startswith("127."):
        pytest.skip("this machine has no address beside loopback")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, int(running.url.rpartition(":")[2])), timeout=5)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "::1"])
def test_other_names_of_loopback(up: Up, host: str) -> None:
    running = up("--host", host).ready()
    assert running.url.startswith("http://")
    assert len(running.get("nodes")["items"]) == 16
