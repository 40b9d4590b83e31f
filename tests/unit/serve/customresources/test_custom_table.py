"""Printer columns and their paths, with the cells that kube-apiserver 1.36.3 gives."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.base.resource import Context
from kube_embedded.customresources.jsonpath import BadPath, Table, parse

NOW = Context(1_577_836_800 + 3 * 86400 + 7200)  # three days and two hours into 2020
OBJECT: dict[str, Any] = {
    "metadata": {"name": "x", "creationTimestamp": "2020-01-01T00:00:00Z"},
    "spec": {
        "r": 3,
        "f": 1.5,
        "b": True,
        "c": [{"type": "A", "status": "x", "n": 1}, {"type": "Ready", "status": "True", "n": 2}],
        "l": ["p", "q"],
        "m": {"a.b/c": "val", "z": 1},
        "bad": "nonsense",
        "nul": None,
        "s": "str",
    },
}
CELLS: list[tuple[str, str, Any]] = [
    ("integer", ".spec.r", 3),
    ("string", ".spec.r", "3"),
    ("number", ".spec.f", 1.5),
    ("string", ".spec.f", "1.5"),
    ("integer", ".spec.f", 1),
    ("boolean", ".spec.b", True),
    ("string", ".spec.b", "true"),
    ("string", '.spec.c[?(@.type=="Ready")].status', "True"),
    ("string", ".spec.c[?(@.type=='Ready')].status", "True"),
    ("string", ".spec.c[?(@.n>1)].type", "Ready"),
    ("string", ".spec.c[?(@.n)].type", "A"),
    ("string", ".spec.c[?(@.zz)].type", None),
    ("string", ".spec.l", '["p","q"]'),
    ("string", ".spec.l[0]", "p"),
    ("string", ".spec.l[-1]", "q"),
    ("string", ".spec.l[9]", None),
    ("string", ".spec.l[*]", "p"),
    ("string", ".spec.l[1:]", "q"),
    ("string", ".spec.l[1,0]", "q"),
    ("string", ".spec.m", '{"a.b/c":"val","z":1}'),
    ("string", r".spec.m.a\.b/c", "val"),
    ("string", r".spec.m['a\.b/c']", "val"),
    ("string", ".spec.m['a.b/c']", None),
    ("string", "..type", "A"),
    ("string", ".spec.zz.yy", None),
    ("integer", ".spec.zz.yy", None),
    ("string", ".spec.nul", "<no value>"),
    ("integer", ".spec.nul", None),
    ("integer", ".spec.s", None),
    ("date", ".metadata.creationTimestamp", "3d2h"),
    ("date", ".spec.bad", "<invalid>"),
    ("string", ".metadata.creationTimestamp", "2020-01-01T00:00:00Z"),
]


@pytest.mark.parametrize(("kind", "path", "cell"), CELLS, ids=[f"{row[0]} {row[1]}" for row in CELLS])
def test_a_cell_shows(kind: str, path: str, cell: Any) -> None:
    table = Table([{"name": "Column", "type": kind, "jsonPath": path}])
    assert table.row(OBJECT, NOW) == ["x", cell]


def test_a_table_without_columns_shows_the_age() -> None:
    table = Table([])
    assert [column.name for column in table.columns] == ["Name", "Age"]
    assert table.row(OBJECT, NOW) == ["x", "3d2h"]


def test_columns_keep_priority_format_and_description() -> None:
    given = {"name": "P", "type": "integer", "format": "int32", "jsonPath": ".a", "priority": 1, "description": "what"}
    column = Table([given]).columns[1]
    assert (column.name, column.type, column.format, column.priority, column.description) == (
        "P",
        "integer",
        "int32",
        1,
        "what",
    )


def test_a_column_without_description_tells_its_path() -> None:
    column = Table([{"name": "P", "type": "string", "jsonPath": ".a"}]).columns[1]
    assert column.description == "Custom resource definition column (in JSONPath format): .a"


def test_a_column_whose_path_cannot_be_read_ends_the_table() -> None:
    table = Table([{"name": "A", "type": "string", "jsonPath": ".spec["}, {"name": "B", "jsonPath": ".b"}])
    assert [column.name for column in table.columns] == ["Name"]


@pytest.mark.parametrize("path", [".a[", ".a[x]", '.a[?(@.b=="c)]', ".a[?(@.b==1)", ".a[?(@.b=>1)]", "a"])
def test_a_path_that_makes_no_sense_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        parse(path)
