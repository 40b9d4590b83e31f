"""Metadata of wrong types, and what kube-apiserver 1.36.3 says to it."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.customresources.strategy import metadata_error
from kube_embedded.schema.shaping import compile_structural

POD = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
SCHEMA = compile_structural(
    {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"e": POD, "l": {"type": "array", "items": POD}}}},
    }
)
FIELD = "json: cannot unmarshal number into Go struct field ObjectMeta"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"metadata": {"name": "x", "labels": {"a": "b"}}}, ""),
        ({"metadata": {"name": "x", "labels": None}}, ""),
        ({"metadata": {"name": 5}}, f"{FIELD}.name of type string"),
        ({"metadata": {"labels": {"a": 1}}}, f"{FIELD}.labels of type string"),
        ({"metadata": {"finalizers": [1]}}, f"{FIELD}.finalizers of type string"),
        ({"metadata": []}, "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
        ({"spec": {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}}}, ""),
        ({"spec": {"e": {"apiVersion": 5}}}, "spec.e.apiVersion: Invalid value: 5: must be a string"),
        ({"spec": {"l": [{}, {"kind": {}}]}}, "spec.l[1].kind: Invalid value: {}: must be a string"),
        (
            {"spec": {"e": {"metadata": {"labels": {"a": 1}}}}},
            f'spec.e.metadata: Invalid value: {{"labels":{{"a":1}}}}: {FIELD}.labels of type string',
        ),
        (
            {"spec": {"e": {"metadata": 5}}},
            "spec.e.metadata: Invalid value: 5: json: cannot unmarshal number into Go value of type v1.ObjectMeta",
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_metadata_of_a_wrong_type_is_named(given: dict[str, Any], words: str) -> None:
    assert metadata_error(given, SCHEMA) == words
