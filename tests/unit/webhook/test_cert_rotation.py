"""Certificates of a running webhook: nobody is ever shown one that it has not been told to trust for long enough."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kube_apimachinery import tls
from spinney.serve.webhook.certificates import (
    CertificateRotation,
    InMemoryStore,
    Merge,
    MountedCertificates,
    Schedule,
    SelfSigned,
    ServingCertificates,
    Source,
)

NOW = float(int(time.time()))
SETTLE_S = 60.0
DAY_S = 86_400.0


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now(self) -> float:
        return NOW + self.passed_s

    def monotonic(self) -> float:
        return self.passed_s


class Cluster:
    """An API server that follows a bundle only when it is `SETTLE_S` old, and never trusts in vain."""

    def __init__(self, source: Source, shares: Cluster | None = None) -> None:
        self.time: Time = shares.time if shares else Time()
        self.published: list[tuple[float, bytes]] = shares.published if shares else []
        self.leaf: tls.Certificate | None = None
        self.shown: list[tls.Certificate] = []
        self.reachable = True
        self.upkeep = CertificateRotation(source, self._publish, self.time, SETTLE_S)

    async def _publish(self, merge: Merge) -> None:
        if not self.reachable:
            raise OSError("out of reach")
        bundle = merge(self.published[-1][1] if self.published else b"")
        if not self.published or self.published[-1][1] != bundle:
            self.published.append((self.time.passed_s, bundle))

    async def begin(self) -> None:
        self._show(await self.upkeep.begin())
        await self.upkeep.refresh(self._show)

    def _show(self, leaf: tls.Certificate) -> None:
        self.leaf = leaf
        self.shown.append(leaf)

    async def after(self, seconds: float) -> None:
        self.time.passed_s += seconds
        await self.upkeep.refresh(self._show)
        self.check()

    def check(self) -> None:
        """Whoever sees any bundle that may still be in use trusts what is shown."""
        assert self.leaf is not None
        since_s = self.time.passed_s - SETTLE_S
        current = [bundle for at_s, bundle in self.published if at_s > since_s]
        settled = [bundle for at_s, bundle in self.published if at_s <= since_s][-1:]
        for bundle in current + settled:
            assert is_trusted(self.leaf, bundle)


def is_trusted(leaf: tls.Certificate, bundle: bytes) -> bool:
    pems = [part + b"-----END CERTIFICATE-----\n" for part in bundle.split(b"-----END CERTIFICATE-----\n") if part]
    return any(tls.is_issued_by(leaf, tls.Certificate(pem, b"")) for pem in pems)


async def test_a_rotation_on_schedule_never_shows_what_is_not_trusted() -> None:
    schedule = Schedule(
        authority_days=10, authority_margin_s=5 * DAY_S, leaf_days=5, leaf_margin_s=DAY_S, settle_s=SETTLE_S
    )
    cluster = Cluster(SelfSigned(InMemoryStore(), ["h"], schedule))
    await cluster.begin()
    for _ in range(12 * 24):
        await cluster.after(3600.0)
        for _ in range(4):
            await cluster.after(SETTLE_S / 4)
    assert len(cluster.shown) > 2


async def test_the_steps_of_a_rotation_one_by_one() -> None:
    source = SelfSigned(InMemoryStore(), ["h"], Schedule(authority_margin_s=float("inf"), settle_s=SETTLE_S))
    cluster = Cluster(source)
    await cluster.begin()
    sizes = []
    for _ in range(8):
        sizes.append((len(cluster.shown), cluster.published[-1][1].count(b"BEGIN")))
        await cluster.after(SETTLE_S / 2)
    assert sizes[:6] == [(1, 2), (1, 2), (2, 2), (2, 2), (2, 2), (2, 2)]


class Given:
    """Papers that a test exchanges."""

    def __init__(self, papers: ServingCertificates) -> None:
        self.papers = papers

    async def read(self, now_s: float) -> ServingCertificates:
        return self.papers


def papers(name: str) -> ServingCertificates:
    authority = tls.create_authority(name, now_s=NOW)
    return ServingCertificates(tls.issue(authority, ["h"], now_s=NOW), authority.certificate_pem)


async def test_other_papers_are_trusted_before_they_are_shown_and_the_old_ones_go_last() -> None:
    old, new = papers("old"), papers("new")
    source = Given(old)
    cluster = Cluster(source)
    await cluster.begin()
    await cluster.after(10 * SETTLE_S)
    source.papers = new
    await cluster.after(1.0)
    assert (cluster.leaf, cluster.published[-1][1]) == (old.leaf, new.bundle + old.bundle)
    await cluster.after(SETTLE_S - 1)
    assert cluster.leaf == old.leaf
    await cluster.after(1.0)
    assert (cluster.leaf, cluster.published[-1][1]) == (new.leaf, new.bundle + old.bundle)
    await cluster.after(SETTLE_S)
    assert cluster.published[-1][1] == new.bundle


async def test_nothing_is_shown_while_trust_cannot_be_published() -> None:
    old, new = papers("old"), papers("new")
    source = Given(old)
    cluster = Cluster(source)
    await cluster.begin()
    source.papers, cluster.reachable = new, False
    for _ in range(3):
        with pytest.raises(OSError, match="out of reach"):
            await cluster.after(SETTLE_S)
    assert cluster.leaf == old.leaf
    cluster.reachable = True
    await cluster.after(1.0)
    assert cluster.leaf == old.leaf
    await cluster.after(SETTLE_S)
    assert cluster.leaf == new.leaf


async def test_what_others_publish_is_shown_at_once() -> None:
    old, new = papers("old"), papers("new")
    source = Given(ServingCertificates(old.leaf, b""))
    cluster = Cluster(source)
    await cluster.begin()
    source.papers = ServingCertificates(new.leaf, b"")
    await cluster.upkeep.refresh(cluster._show)
    assert (cluster.leaf, cluster.published) == (new.leaf, [])


async def test_a_directory_is_read_again_each_time(tmp_path: Path) -> None:
    source = MountedCertificates(tmp_path)
    for name in ("one", "two"):
        made = papers(name)
        tls.save(made.leaf, tmp_path / "tls.crt", tmp_path / "tls.key")
        (tmp_path / "ca.crt").write_bytes(made.bundle)
        assert await source.read(NOW) == made
    (tmp_path / "ca.crt").unlink()
    assert await source.read(NOW) == ServingCertificates(made.leaf, b"")


async def test_a_replica_that_starts_on_emptied_authorities_leaves_the_others_trusted() -> None:
    store, schedule = InMemoryStore(), Schedule(settle_s=SETTLE_S)
    old = Cluster(SelfSigned(store, ["h"], schedule))
    await old.begin()
    await old.after(10 * SETTLE_S)

    await store.write(())
    new = Cluster(SelfSigned(store, ["h"], schedule), shares=old)
    await new.begin()
    for _ in range(60):
        old.time.passed_s += SETTLE_S / 6
        for replica in (new, old):
            await replica.upkeep.refresh(replica._show)
            assert all(is_trusted(each.leaf, old.published[-1][1]) for each in (new, old) if each.leaf)
    assert [bundle.count(b"BEGIN") for _, bundle in old.published] == [1, 2, 1], "no replica undoes what another wrote"
    assert old.leaf is not None and len(old.shown) == 2


@pytest.mark.parametrize("trusted", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
async def test_what_is_no_certificate_leaves_the_bundle(trusted: bytes) -> None:
    cluster = Cluster(SelfSigned(InMemoryStore(), ["h"], Schedule(settle_s=SETTLE_S)))
    cluster.published.append((0.0, trusted))
    await cluster.begin()
    assert b"junk" not in cluster.published[-1][1] and cluster.published[-1][1].count(b"BEGIN") == 1


async def test_an_authority_of_others_that_has_expired_leaves_the_bundle() -> None:
    cluster = Cluster(SelfSigned(InMemoryStore(), ["h"], Schedule(settle_s=SETTLE_S)))
    cluster.published.append((0.0, tls.create_authority("old", now_s=NOW - 10 * DAY_S, days=9).certificate_pem))
    await cluster.begin()
    assert cluster.published[-1][1].count(b"BEGIN") == 1


async def test_a_webhook_that_was_trusted_once_stays_ready_while_nothing_can_be_published() -> None:
    cluster = Cluster(SelfSigned(InMemoryStore(), ["h"], Schedule(settle_s=SETTLE_S)))
    cluster._show(await cluster.upkeep.begin())
    cluster.reachable = False
    await cluster.upkeep.try_refresh(cluster._show)
    assert cluster.upkeep.trouble == "certificates: out of reach"

    cluster.reachable = True
    await cluster.upkeep.try_refresh(cluster._show)
    assert (cluster.upkeep.trouble, cluster.upkeep.failure) == ("", "")

    cluster.reachable = False
    await cluster.upkeep.try_refresh(cluster._show)
    assert (cluster.upkeep.trouble, cluster.upkeep.failure) == ("", "out of reach")

    cluster.time.passed_s = 10_000 * DAY_S
    await cluster.upkeep.try_refresh(cluster._show)
    assert cluster.upkeep.trouble == "the certificate has expired: out of reach"
