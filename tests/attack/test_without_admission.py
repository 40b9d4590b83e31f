"""The same tenant where no webhook and no policy admits anything: what it writes is dropped, and never acted on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attack.forging import PLAN, record, to_bind, to_wait, victim_uids, waiting_gang
from attack.harm import Before, check_unharmed
from attack.installation import TENANT, Installation, without_admission
from attack.table import MARKS
from attack.tenants import ATTACKER, FREE, FULL, GROUPS, LABELLED, Attempt
from attack.test_judged_again import EPOCHS, rejections, stays_waiting
from cluster_kit.server import eventually
from cluster_kit.space import Space
from unit.scheduler.scheduler_world import podgroup

pytestmark = MARKS


@pytest.fixture(scope="module")
def unguarded(installation: Installation) -> Iterator[None]:
    with without_admission(installation.server):
        yield
    home = Space(installation.server, ATTACKER, TENANT)
    forged = {"metadata": {"name": "forged", "annotations": {"spinney.dev/epoch": "1"}}}
    made = {**podgroup("forged"), **forged}
    eventually(lambda: home.create(GROUPS, made, dryRun="All").status == 403, "admission is back", 60)


def forge(at: Attempt, name: str, annotations: dict[str, str]) -> None:
    """By the tenant itself; until the API server knows that nobody is to be asked it is refused."""

    def accepted() -> bool:
        return at.patch(GROUPS, name, {"metadata": {"annotations": annotations}}).status == 200

    eventually(accepted, "nobody admits anything", 30)


@pytest.mark.usefixtures("unguarded")
def test_a_plan_that_moves_all_pods_of_another_tenant_is_dropped(attempt: Attempt, before: Before) -> None:
    uids = waiting_gang(attempt, "mover", nodeSelector={"kubernetes.io/hostname": LABELLED})
    plan = to_wait(uids, FULL[0], [], victim_uids(attempt), FREE[0])
    forge(attempt, "mover", record(plan))
    eventually(lambda: rejections(attempt, "mover"), "it is told", 20)

    def dropped() -> bool:
        return attempt.admin.get(GROUPS, "mover").ok(200)["metadata"]["annotations"].get(PLAN) != plan

    eventually(dropped, "the plan is taken away", 20)
    stays_waiting(attempt, "mover-0")
    check_unharmed(attempt.found, before)


@pytest.mark.usefixtures("unguarded")
def test_a_plan_that_binds_against_a_selector_is_dropped(attempt: Attempt, before: Before) -> None:
    uids = waiting_gang(attempt, "excluded", nodeSelector={"example.com/for": "others"})
    forge(attempt, "excluded", record(to_bind(uids, FREE[0])))
    eventually(lambda: rejections(attempt, "excluded"), "it is told", 20)
    stays_waiting(attempt, "excluded-0")
    check_unharmed(attempt.found, before)


@pytest.mark.usefixtures("unguarded")
def test_no_epoch_ends_leadership(attempt: Attempt, before: Before) -> None:
    for number, epoch in enumerate(EPOCHS.values()):
        attempt.create(GROUPS, podgroup(f"epoch-{number}")).ok(201)
        forge(attempt, f"epoch-{number}", {"spinney.dev/epoch": epoch, "spinney.dev/fenced": epoch})
    check_unharmed(attempt.found, before)
