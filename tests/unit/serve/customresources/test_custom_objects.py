"""The life of custom objects as kube-apiserver 1.36.3 runs it, step by step (recorded in played_objects.json)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kube_apimachinery.field_errors import FieldError
from kube_embedded.base.resource import Context, Resource
from kube_embedded.customresources import resources
from kube_embedded.customresources.definition import DefinitionStrategy
from kube_embedded.schema.shaping import prune

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("played_objects.json").read_text())
NOW = Context(0)


def _served(schema: dict[str, Any], options: dict[str, Any]) -> Resource:
    options = dict(options)
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if options.pop("status", True):
        version["subresources"] = {"status": {}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "t.io", "names": names, "scope": "Namespaced", "versions": [{**version, **options}]}
    crd: dict[str, Any] = {"metadata": {"name": "things.t.io"}, "spec": spec}
    strategy = DefinitionStrategy()
    strategy.prepare_create(crd, NOW)
    strategy.default(crd)
    assert strategy.validate_create(crd) == []
    return resources(crd)[0]


class Play:
    """One object, written as the server writes it."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.stored: dict[str, Any] | None = None

    def act(self, act: str, given: dict[str, Any]) -> dict[str, Any] | list[str]:
        given = copy.deepcopy(given)
        meta = {"name": "x", **given.pop("metadata", {}), "generation": 1}
        obj = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": meta, **given}
        prune(obj, self.resource.schema)
        errors = self._create(obj) if act == "create" else self._change(act, obj)
        if errors:
            return [str(error) for error in errors]
        if self.stored is None or act != "create":
            self.stored = obj
        shown = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
        return {**shown, "generation": obj["metadata"]["generation"]}

    def _create(self, obj: dict[str, Any]) -> list[FieldError]:
        strategy = self.resource.strategy
        strategy.prepare_create(obj, NOW)
        strategy.default(obj)
        return strategy.validate_create(obj)

    def _change(self, act: str, obj: dict[str, Any]) -> list[FieldError]:
        strategy, old = self.resource.strategy, self.stored
        assert old is not None
        strategy.default(obj)
        if act == "status":
            strategy.prepare_status_update(obj, old, NOW)
            return strategy.validate_status_update(obj, old)
        strategy.prepare_update(obj, old, NOW)
        obj["metadata"]["generation"] = old["metadata"]["generation"] + strategy.generation_changes(obj, old)
        return strategy.validate_update(obj, old)


@pytest.mark.parametrize("row", RECORDED, ids=[row["name"] for row in RECORDED])
def test_objects_live_as_they_do_in_kubernetes(row: dict[str, Any]) -> None:
    play = Play(_served(row["schema"], row["version"]))
    for step in row["steps"]:
        if step["do"] == "schema":
            play.resource = _served(step["given"], row["version"])
            continue
        found = play.act(step["do"], step["given"])
        if "errors" in step:
            assert isinstance(found, list), step["given"]
            assert sorted(found) == sorted(step["errors"])
        else:
            assert found == step["result"]
