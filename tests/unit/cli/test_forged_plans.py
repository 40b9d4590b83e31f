"""A tenant writes a plan on its PodGroup: commands have no key, and do not count on what no lawful decision says."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from spinney.api.meta import ObjectMeta
from spinney.core.scheduling.plan import Assignment, Plan, encode
from spinney.core.scheduling.plan_records import RejectedRecord, UnverifiedReader
from unit.cli.canned_cluster import run_on
from unit.cli.test_unreadable_objects import cluster, group, pod, podcliqueset

Json = dict[str, Any]
UNSIGNED: Json = {"spinney.dev/epoch": "1"}
WRONGLY_SIGNED: Json = UNSIGNED | {"spinney.dev/plan-signature": f"v1 - 1 {'0' * 64}"}
SIGNATURES = pytest.mark.parametrize("signature", [UNSIGNED, WRONGLY_SIGNED], ids=["unsigned", "wrongly signed"])


def forged(signature: Json, plan: Plan) -> dict[str, list[Json]]:
    """On n0 runs a gang of others, n1 is free, and a tenant wants n0."""
    group_of_tenant = group("tenant")
    group_of_tenant["metadata"]["annotations"] = {**signature, "spinney.dev/plan": encode(plan)}
    found = cluster(pods=[pod("tenant-0", of="tenant")], podgroups=[group_of_tenant])
    return found | {
        plural: [one for one in found[plural] if one["metadata"]["name"] != "odd"] for plural in ("pods", "podgroups")
    }


BIND = Plan(1, "bind", (Assignment("uid-tenant-0", "n0"),))
EVICT = Plan(1, "wait", (Assignment("uid-tenant-0", "n0"),), victims=("uid-a-0",))


@SIGNATURES
@pytest.mark.parametrize("plan", [BIND, EVICT], ids=["bind", "evict"])
def test_inv7_plan_gives_nobodys_room_away_for_a_forged_plan(
    signature: Json, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenant's pod goes to n1, as it would: nothing is left for the new set."""
    text = yaml.safe_dump(podcliqueset("new"))
    found = run_on(monkeypatch, forged(signature, plan), "plan", "-f", "-", "-n", "ns", "-o", "json", text=text)
    assert found.exit_code == 1, found.output


@SIGNATURES
def test_inv7_consolidate_gives_nobodys_room_away_for_a_forged_plan(
    signature: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both nodes are full: a gang that waits is stuck, whoever is said to leave."""
    objects = forged(signature, Plan(1, "wait", (Assignment("uid-of-nobody", "n0"),), victims=("uid-a-0",)))
    objects["pods"] += [pod("a-1", "n1"), pod("later-0", of="later")]
    objects["podgroups"].append(group("later"))
    found = run_on(monkeypatch, objects, "consolidate", "-o", "json")
    assert [one["gang"] for one in json.loads(found.stdout)["stuck"]] == ["ns/later"]


@SIGNATURES
def test_k15_explain_claims_nothing_for_a_forged_plan(signature: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_on(monkeypatch, forged(signature, BIND), "explain", "ns/tenant")
    assert found.exit_code == 0
    assert "being bound" not in found.stdout
    assert "a plan is recorded, which only its scheduler can verify; 0 of its 1 pods are" in found.stdout


def test_a_record_without_a_signature_is_none_for_those_who_have_no_key() -> None:
    def read(signature: Json) -> object:
        return UnverifiedReader().read(
            ObjectMeta(name="tenant", annotations={**signature, "spinney.dev/plan": encode(BIND)})
        )

    assert read(UNSIGNED) == RejectedRecord("signature", "its signature is missing")
    assert read(WRONGLY_SIGNED) == BIND  # and is judged like one that is taken over
