"""Where pages are served and with which token."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from spinney.cli.wiring.roles.metrics_server import serving_context
from spinney.cli.wiring.roles.registry import DashboardOptions, address_of
from spinney.serve.dashboard.data_sources import Questions
from spinney.serve.dashboard.model import Model
from spinney.serve.dashboard.server import serving
from spinney.whatif.inputs.operator_settings import ConfigurationError
from unit.dashboard.world import hall


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":0", ("127.0.0.1", 0)),
        ("[::1]:8088", ("::1", 8088)),
        ("localhost:1", ("localhost", 1)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_an_address_is_host_and_port(text: str, found: tuple[str, int]) -> None:
    assert address_of(text) == found


@pytest.mark.parametrize(
    "text", ["8088", "127.0.0.1", "::1:80", "evil.example:80", "127.0.0.1:65536", "127.0.0.1:x", ":"]
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--address .*HOST:PORT is expected"):
        address_of(text)


def test_b5_a_token_is_asked_for_anywhere_but_on_loopback() -> None:
    assert DashboardOptions("127.0.0.1").token() == DashboardOptions("::1").token() == ""
    first, second = DashboardOptions("0.0.0.0").token(), DashboardOptions("0.0.0.0").token()
    assert len(first) >= 32
    assert first != second


def test_a_token_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a token of some length\n")
    assert DashboardOptions(token_file=tmp_path / "token").token() == "a token of some length"


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 20, "ünïcödé-ünïcödé-ünïcödé".encode()])
def test_a_token_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigurationError, match="--token-file"):
        DashboardOptions(token_file=tmp_path / "token").token()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        DashboardOptions(token_file=tmp_path / "nowhere").token()


async def test_b5_pages_are_never_served_to_others_without_a_token() -> None:
    with pytest.raises(ValueError, match="need a token"):
        async with serving(Model(hall().views), Questions(), "0.0.0.0"):
            pass


async def test_b5_pages_for_others_speak_tls_and_the_token_is_in_no_address() -> None:
    """The certificate is made at the start; the pages of a described hall stand for those of a cluster."""
    async with (
        serving_context("0.0.0.0", None) as context,
        serving(Model(hall().views), Questions(), "0.0.0.0", token="t" * 32, tls=context) as url,
        httpx.AsyncClient(verify=False) as client,
    ):
        port = url.rpartition(":")[2]
        assert url == f"https://0.0.0.0:{port}"
        assert (await client.get(f"https://127.0.0.1:{port}/", timeout=60)).status_code == 401
        entered = await client.get(f"https://127.0.0.1:{port}/?token={'t' * 32}", timeout=60)
        assert (entered.status_code, "secure" in entered.headers["set-cookie"].lower()) == (303, True)
        with pytest.raises(httpx.HTTPError):
            await client.get(f"http://127.0.0.1:{port}/", timeout=60)


async def test_a_port_that_is_taken_is_named() -> None:
    async with serving(Model(hall().views), Questions()) as url:
        port = int(url.rpartition(":")[2])
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serving(Model(hall().views), Questions(), ports=(port,)):
                pass


async def test_where_the_usual_port_is_taken_the_next_one_is_used() -> None:
    async with serving(Model(hall().views), Questions()) as url:
        port = int(url.rpartition(":")[2])
        async with serving(Model(hall().views), Questions(), ports=(port, 0)) as other:
            assert other != url
