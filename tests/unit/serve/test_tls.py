"""Certificates: who trusts whom, and how an authority is replaced without a gap."""

from __future__ import annotations

import asyncio
import ssl
import stat
import time
from pathlib import Path

import pytest

from kube_apimachinery import tls

NOW = time.time()


async def shakes_hands(leaf: tls.Certificate, bundle: bytes, host: str = "127.0.0.1") -> bool:
    """Whether a client that trusts the bundle accepts the leaf as this host."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls.server_context(leaf))
    port = server.sockets[0].getsockname()[1]
    try:
        context = tls.client_context(bundle)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
        writer.close()
        return True
    except ssl.SSLCertVerificationError:
        return False
    finally:
        server.close()


async def test_a_leaf_is_trusted_by_its_authority_only() -> None:
    ours, other = (tls.create_authority(name, now_s=NOW) for name in ("ours", "other"))
    leaf = tls.issue(ours, ["127.0.0.1"], now_s=NOW)
    assert await shakes_hands(leaf, ours.certificate_pem)
    assert not await shakes_hands(leaf, other.certificate_pem)


async def test_a_leaf_is_good_for_its_hosts_only() -> None:
    authority = tls.create_authority("ours", now_s=NOW)
    leaf = tls.issue(authority, ["hook.tools.svc", "::1"], now_s=NOW)
    assert await shakes_hands(leaf, authority.certificate_pem, "hook.tools.svc")
    assert not await shakes_hands(leaf, authority.certificate_pem, "127.0.0.1")


async def test_an_expired_leaf_is_not_trusted() -> None:
    authority = tls.create_authority("ours", now_s=NOW - 10 * 86400)
    assert not await shakes_hands(
        tls.issue(authority, ["127.0.0.1"], now_s=NOW - 2 * 86400, days=1), authority.certificate_pem
    )


async def test_a_leaf_may_be_trusted_by_itself() -> None:
    leaf = tls.issue(tls.create_authority("ours", now_s=NOW), ["127.0.0.1"], now_s=NOW)
    assert await shakes_hands(leaf, leaf.certificate_pem)


def test_a_leaf_is_known_by_who_signed_it() -> None:
    ours, namesake = (tls.create_authority("ours", now_s=NOW) for _ in range(2))
    leaf = tls.issue(ours, ["127.0.0.1"], now_s=NOW)
    assert tls.is_issued_by(leaf, ours)
    assert not tls.is_issued_by(leaf, namesake)


def test_a_bundle_has_every_certificate_once() -> None:
    old, new = (tls.create_authority(name, now_s=NOW).certificate_pem for name in ("old", "new"))
    assert tls.joined(old, old + new, b"") == old + new
    assert tls.joined() == b""


def test_a_certificate_is_due_before_it_expires() -> None:
    leaf = tls.issue(tls.create_authority("ours", now_s=NOW), ["127.0.0.1"], now_s=NOW, days=10)
    assert not tls.is_due(leaf, NOW, margin_s=86400)
    assert tls.is_due(leaf, NOW + 9.5 * 86400, margin_s=86400)


def test_what_is_saved_is_loaded_and_the_key_is_private(tmp_path: Path) -> None:
    leaf = tls.issue(tls.create_authority("ours", now_s=NOW), ["127.0.0.1"], now_s=NOW)
    paths = tmp_path / "tls.crt", tmp_path / "tls.key"
    paths[1].write_text("readable by all")
    tls.save(leaf, *paths)
    assert tls.load(*paths) == leaf
    assert stat.S_IMODE(paths[1].stat().st_mode) == 0o600


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    one, two = (tls.create_authority(name, now_s=NOW) for name in ("one", "two"))
    tls.save(tls.Certificate(one.certificate_pem, two.key_pem), tmp_path / "crt", tmp_path / "key")
    with pytest.raises(ValueError, match="is not the key of the certificate"):
        tls.load(tmp_path / "crt", tmp_path / "key")
