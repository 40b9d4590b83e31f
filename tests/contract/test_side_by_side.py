"""Both servers at once: the same request, and then every field of both answers is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from cluster_kit.comparing import differences
from cluster_kit.histories import Author, definition
from cluster_kit.kinds import BY_PLURAL, KINDS, Kind, body_of
from cluster_kit.objects import crd, custom, merged, pod
from cluster_kit.server import Reply, Server
from cluster_kit.space import Space
from contract import (
    test_builtin_rules,
    test_custom_objects,
    test_metadata,
    test_pods,
    test_webhooks,
)

pytestmark = pytest.mark.real
LIVES_PER_SEED = 12
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Sides:
    """The same place on both servers."""

    real: Space
    ours: Space

    def ask(self, request: Callable[[Space], Reply]) -> list[str]:
        """Send to both; what differs."""
        return differences(request(self.real), request(self.ours))

    def same(self, request: Callable[[Space], Reply]) -> None:
        assert self.ask(request) == []

    def each(self, do: Callable[[Space], Any]) -> None:
        for side in (self.real, self.ours):
            do(side)


@pytest.fixture
def cluster_sides(_real: Server, _embedded: Server) -> Iterator[Sides]:
    sides = Sides(Space(_real, ""), Space(_embedded, ""))
    yield sides
    sides.each(Space.clean)


@pytest.fixture
def sides(cluster_sides: Sides, unique: str) -> Iterator[Sides]:
    cluster_sides.each(lambda at: at.server.http("POST", "/api/v1/namespaces", {"metadata": {"name": unique}}).ok(201))
    yield Sides(Space(cluster_sides.real.server, unique), Space(cluster_sides.ours.server, unique))
    cluster_sides.each(lambda at: at.server.http("DELETE", f"/api/v1/namespaces/{unique}"))


CONTROLLED = ("jobs", "customresourcedefinitions", "poddisruptionbudgets")
QUIET = [pytest.param(kind, id=kind.plural) for kind in KINDS if kind.plural not in CONTROLLED]
"""Kinds that no controller writes to between two requests."""


@pytest.mark.parametrize("kind", QUIET)
def test_the_life_of_every_kind_is_the_same(kind: Kind, sides: Sides, cluster_sides: Sides, unique: str) -> None:
    at = sides if kind.namespaced else cluster_sides
    plural, name = kind.plural, f"{unique}-x"
    body = body_of(kind, name, unique)
    owned = {"metadata": {"name": name, "labels": {"z": "y"}}, "kind": kind.kind}
    steps: dict[str, Callable[[Space], Reply]] = {
        "create": lambda s: s.create(plural, body),
        "get": lambda s: s.get(plural, name),
        "create again": lambda s: s.create(plural, body),
        "change": lambda s: s.patch(plural, name, kind.change),
        "status": lambda s: s.patch(plural, name, kind.status, sub="status") if kind.status else s.get(plural, name),
        "apply": lambda s: s.apply(plural, {**owned, "apiVersion": s.get(plural, name).body["apiVersion"]}),
        "table": lambda s: s.get(plural, name, accept=TABLE),
        "metadata": lambda s: s.get(plural, name, accept=METADATA),
        "stale": lambda s: s.replace(plural, merged(s.get(plural, name).body, {"metadata": {"resourceVersion": "1"}})),
        "bad label": lambda s: s.patch(plural, name, {"metadata": {"labels": {"a b": "c"}}}),
        "unknown field": lambda s: s.create(plural, {**body, "nonsense": 1}, fieldValidation="Strict"),
        "empty": lambda s: s.create(plural, {"metadata": {"name": f"{name}-empty"}}, dryRun="All"),
        "delete": lambda s: s.delete(plural, name),
        "delete the absent": lambda s: s.delete(plural, "absent"),
    }
    assert {step: found for step, request in steps.items() if (found := at.ask(request))} == {}


@pytest.mark.parametrize("seed", range(1, 11))
def test_random_lives_are_the_same(seed: int, sides: Sides, cluster_sides: Sides, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster_sides.each(lambda at: at.establish(definition(group)))
    author = Author(seed, group)
    for index in range(LIVES_PER_SEED):
        told = []
        for word, request in author.life(f"o{index}"):
            told.append(word)
            found = sides.ask(request)
            assert not found, "\n".join([*found, "after:", *told])


@pytest.mark.parametrize("row", test_pods.INVALID)
def test_refusals_of_pods_have_the_same_words(row: str, sides: Sides) -> None:
    sides.same(lambda at: at.create("pods", pod("p", test_pods.INVALID[row][0])))


@pytest.mark.parametrize("row", test_pods.DEFAULTS)
def test_defaults_of_containers_are_the_same(row: str, sides: Sides) -> None:
    container = {"name": "main", "image": "example.com/app:1", **test_pods.DEFAULTS[row][0]}
    sides.same(lambda at: at.create("pods", pod("p", {"containers": [container]})))


@pytest.mark.parametrize("row", test_builtin_rules.INVALID)
def test_refusals_of_built_in_kinds_have_the_same_words(
    row: str, sides: Sides, cluster_sides: Sides, unique: str
) -> None:
    plural, change, *_ = test_builtin_rules.INVALID[row]
    at = sides if BY_PLURAL[plural].namespaced else cluster_sides
    at.same(lambda side: side.create(plural, merged(body_of(BY_PLURAL[plural], unique, unique), change)))


@pytest.mark.parametrize("row", test_builtin_rules.DEFAULTS)
def test_defaults_of_built_in_kinds_are_the_same(row: str, sides: Sides, cluster_sides: Sides, unique: str) -> None:
    plural, body, _ = test_builtin_rules.DEFAULTS[row]
    at = sides if BY_PLURAL[plural].namespaced else cluster_sides
    at.same(lambda side: side.create(plural, merged(body, {"metadata": {"name": unique}})))


@pytest.mark.parametrize("row", test_builtin_rules.FROZEN)
def test_refusals_of_changes_have_the_same_words(row: str, sides: Sides, cluster_sides: Sides, unique: str) -> None:
    plural, change, _ = test_builtin_rules.FROZEN[row]
    at = sides if BY_PLURAL[plural].namespaced else cluster_sides
    at.each(lambda side: side.create(plural, body_of(BY_PLURAL[plural], unique, unique)).ok(201))
    at.same(lambda side: side.patch(plural, unique, change))


@pytest.mark.parametrize("row", test_metadata.BAD_METADATA)
def test_refusals_of_metadata_have_the_same_words(row: str, sides: Sides) -> None:
    sides.same(lambda at: at.create("configmaps", {"metadata": test_metadata.BAD_METADATA[row][0]}))


def test_refusals_by_a_schema_have_the_same_words(sides: Sides, cluster_sides: Sides, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster_sides.each(lambda at: at.establish(crd(group, {"spec": test_custom_objects.VALUES})))
    found = {}
    for row, (change, *_) in test_custom_objects.INVALID.items():
        spec = {key: value for key, value in {"must": "x", **change}.items() if value is not None}
        body = custom(group, "a", spec=spec)
        found[row] = sides.ask(lambda at, body=body: at.create(f"{group}/v1/widgets", body))  # type: ignore[misc]
    assert {row: lines for row, lines in found.items() if lines} == {}


@pytest.mark.parametrize("row", [row for row in test_webhooks.BAD_HOOKS if row not in test_webhooks.CEL_ROWS])
def test_refusals_of_webhooks_have_the_same_words(row: str, cluster_sides: Sides, unique: str) -> None:
    change, _ = test_webhooks.BAD_HOOKS[row]
    hook = merged(test_webhooks.HOOK, change)
    hook.update({key: value for key, value in change.items() if isinstance(value, list)})
    body = {"metadata": {"name": unique}, "webhooks": [hook]}
    cluster_sides.same(lambda at: at.create("validatingwebhookconfigurations", body))
