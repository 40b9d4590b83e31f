"""Everything that was accepted from an attacker, in the store at once: roles that start anew on it serve."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from attack import test_amounts, test_names, test_pod_fields
from attack.forging import record
from attack.harm import Before, check_page, check_unharmed, look
from attack.table import MARKS, Row
from attack.tenants import GROUPS, Attempt
from attack.test_judged_again import EPOCHS, GARBAGE, OTHERS, forge
from cluster_kit.server import eventually
from cluster_kit.space import Space
from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import SCHEDULER_LEASE
from unit.scheduler.scheduler_world import podgroup

pytestmark = [*MARKS, pytest.mark.timeout(600)]
ACCEPTED: list[Row] = [
    row for module in (test_amounts, test_names, test_pod_fields) for row in module.table.rows if not row.code
]
FORGED = {
    f"spinney.dev/{key}": value for other in OTHERS.values() for key, value in other.items() if len(value) < 10_000
}
"""One of each record of ours that is not a plan, as far as one object can hold them."""


def test_roles_that_start_on_everything_at_once_come_up_and_serve(attempt: Attempt, before: Before) -> None:
    """All but the webhook, which keeps nothing in mind and has to be there when the operator starts."""
    with ThreadPoolExecutor(4) as pool:
        sent = sum(pool.map(lambda row: _leaves_something(row, attempt), ACCEPTED))
    print(f"{sent} of {len(ACCEPTED)} accepted attacks at once")
    assert sent >= 45
    attempt.create(GROUPS, podgroup("poisoned", 2)).ok(201)
    records = {**FORGED, **record(GARBAGE["nested 50,000 deep"], EPOCHS["of 5,000 digits"])}
    for role in attempt.found.roles.values():
        if role.name != "webhook":
            role.stop()
    forge(attempt, "poisoned", records).ok(200)
    Space(attempt.found.server, NAMESPACE).delete("leases", SCHEDULER_LEASE).ok(200)
    attempt.found.heal()
    now = look(attempt.found)
    assert (now.pods, now.owners) == (before.pods, before.owners)
    check_unharmed(attempt.found, now)
    for page in ("/tree", "/topologies"):
        check_page(attempt.found, page)
    eventually(lambda: not attempt.found.troubles(), "every role is well", 20)


def _leaves_something(row: Row, attempt: Attempt) -> bool:
    """A row may not be repeatable beside the others: names are taken. It is left out then."""
    try:
        return row.send(attempt).status < 300
    except AssertionError:
        return False
