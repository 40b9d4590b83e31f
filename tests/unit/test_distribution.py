"""Tests that share an installation share a worker, and long ones come first."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from distribution import in_order, scope_of

MODULE = "tests/contract/test_scheduler_owners.py"


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        (f"{MODULE}::test_a[embedded]", f"{MODULE}@embedded"),
        (f"{MODULE}::test_b[embedded-a row]", f"{MODULE}@embedded"),
        (f"{MODULE}::test_b[a row-real]", f"{MODULE}@real"),
        (f"{MODULE}::test_c", MODULE),
        (f"{MODULE}::test_c[unreal]", MODULE),
        ("tests/attack/test_names.py::test_a[real]", "attack"),
        ("tests/attack/test_rights.py::test_a", "attack"),
        ("tests/simulation/test_seeds.py::test_a[1]", "tests/simulation/test_seeds.py::test_a[1]"),
    ],
)
def test_what_shares_an_installation_is_one_unit(nodeid: str, scope: str) -> None:
    assert scope_of(nodeid) == scope


def test_long_folders_come_first_and_everything_else_keeps_its_order() -> None:
    names = ["tests/unit/b.py", "tests/contract/a.py", "tests/unit/a.py", "tests/up/a.py", "tests/contract/b.py"]
    items = [SimpleNamespace(nodeid=f"{name}::test") for name in names]
    found = [item.nodeid.removesuffix("::test") for item in in_order(items)]  # type: ignore[arg-type]
    assert found == [
        "tests/up/a.py",
        "tests/contract/a.py",
        "tests/contract/b.py",
        "tests/unit/b.py",
        "tests/unit/a.py",
    ]
