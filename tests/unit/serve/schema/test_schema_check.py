"""Schemas that kube-apiserver 1.36.3 accepts or refuses, and at which fields (recorded in checked_schemas.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kube_embedded.customresources.schema_check import check_schema
from kube_embedded.schema.cel.rules import Rules
from kube_embedded.schema.model import Compiler, complete
from kube_embedded.schema.shaping import prune
from kube_embedded.schema.validate import explain
from unit.serve.schema.schema_kit import STRING, ruled, spec

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("checked_schemas.json").read_text())


@pytest.mark.parametrize("row", RECORDED, ids=[row["name"] for row in RECORDED])
def test_a_schema_is_judged_as_kubernetes_judges_it(row: dict[str, Any]) -> None:
    refused = {error.path for error in check_schema(row["schema"], "spec.validation.openAPIV3Schema")}
    assert bool(refused) == bool(row["refused"])
    assert not refused or refused & set(row["refused"])


LENIENT: list[dict[str, Any]] = json.loads(Path(__file__).with_name("lenient_schemas.json").read_text())


@pytest.mark.parametrize("row", LENIENT, ids=[row["name"] for row in LENIENT])
def test_a_schema_that_only_kubernetes_refuses_can_be_served(row: dict[str, Any]) -> None:
    """The known differences: such a schema compiles, with its rules, and judges whatever comes."""
    assert check_schema(row["schema"], "x") == []
    schema = complete(Compiler().compile(row["schema"]))
    rules = Rules.of(row["schema"], schema)
    for value in ("x", 1, [{"k": "a"}, {"k": "a"}], [["x"], ["x"]], {"x": "y"}, None):
        obj = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"a": value}}
        prune(obj, schema)
        if not explain(obj, row["schema"]) and rules is not None:
            rules.validate(obj, None)


@pytest.mark.parametrize("pattern", ["[a-z", "(?=a)", r"(a)\1", "a**", "(", "a{2,1}"])
def test_a_pattern_that_re2_cannot_read_is_refused(pattern: str) -> None:
    errors = check_schema(spec(a={"type": "string", "pattern": pattern}), "x")
    assert [error.path for error in errors] == ["x.properties[spec].properties[a].pattern"]
    assert errors[0].detail.startswith("must be a valid regular expression, but isn't: error parsing regexp: ")


def test_every_broken_rule_is_told_at_once() -> None:
    raw = spec(a=ruled(STRING, "self.x", "self ==", "self != 'a'"), b=ruled(STRING, "foo(self)"))
    errors = check_schema(raw, "x")
    assert [error.path.removeprefix("x.properties[spec].properties") for error in errors] == [
        "[a].x-kubernetes-validations[0].rule",
        "[a].x-kubernetes-validations[1].rule",
        "[b].x-kubernetes-validations[0].rule",
    ]
