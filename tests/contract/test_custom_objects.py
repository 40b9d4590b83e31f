"""Objects of custom kinds: validated, pruned and defaulted by their schema, and judged by its CEL rules."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import crd, custom
from cluster_kit.server import Reply, eventually
from cluster_kit.space import Space


@pytest.fixture
def define(cluster: Space, unique: str) -> Any:
    """Establish Widgets whose spec has this schema."""
    group = f"{unique}.example.com"

    def establish(spec: dict[str, Any], **version: Any) -> str:
        schema = {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        cluster.establish(crd(group, schema, **version))
        return f"{group}/v1/widgets"

    return establish


def make(space: Space, widgets: str, spec: Any, name: str = "a", **query: Any) -> Reply:
    return space.create(widgets, custom(widgets.split("/")[0], name, spec=spec), **query)


VALUES: dict[str, Any] = {
    "type": "object",
    "required": ["must"],
    "properties": {
        "must": {"type": "string"},
        "int": {"type": "integer", "minimum": 1, "maximum": 5},
        "open": {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True},
        "num": {"type": "number", "multipleOf": 0.5},
        "float": {"type": "number"},
        "flag": {"type": "boolean"},
        "word": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer", "maximum": 9}},
        "map": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": {"type": "integer"}},
        "time": {"type": "string", "format": "date-time"},
        "date": {"type": "string", "format": "date"},
        "uuid": {"type": "string", "format": "uuid"},
        "ipv4": {"type": "string", "format": "ipv4"},
        "duration": {"type": "string", "format": "duration"},
        "small": {"type": "integer", "format": "int32"},
        "either": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "inner": {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "integer"}}}},
        },
        "not": {"type": "string", "not": {"enum": ["bad"]}},
        "any": {"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 5}]},
        "one": {"type": "integer", "oneOf": [{"maximum": 3}, {"minimum": 3}]},
        "all": {"type": "integer", "allOf": [{"maximum": 3}, {"minimum": 2}]},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            },
        },
    },
}

INVALID: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": ({"must": None}, "FieldValueRequired", "spec.must"),
    "integer as text": ({"int": "3"}, "FieldValueTypeInvalid", "spec.int"),
    "integer as fraction": ({"int": 2.5}, "FieldValueTypeInvalid", "spec.int"),
    "below minimum": ({"int": 0}, "FieldValueInvalid", "spec.int"),
    "above maximum": ({"int": 6}, "FieldValueInvalid", "spec.int"),
    "at exclusive minimum": ({"open": 1}, "FieldValueInvalid", "spec.open"),
    "at exclusive maximum": ({"open": 5}, "FieldValueInvalid", "spec.open"),
    "not a multiple": ({"num": 0.75}, "FieldValueInvalid", "spec.num"),
    "flag as text": ({"flag": "true"}, "FieldValueTypeInvalid", "spec.flag"),
    "too short": ({"word": "a"}, "FieldValueInvalid", "spec.word"),
    "too long": ({"word": "abcde"}, "FieldValueTooLong", "spec.word"),
    "off pattern": ({"word": "A1"}, "FieldValueInvalid", "spec.word"),
    "not in enum": ({"choice": "c"}, "FieldValueNotSupported", "spec.choice"),
    "text as list": ({"list": "x"}, "FieldValueTypeInvalid", "spec.list"),
    "empty list": ({"list": []}, "FieldValueInvalid", "spec.list"),
    "long list": ({"list": [1, 2, 3]}, "FieldValueTooMany", "spec.list"),
    "item type": ({"list": ["x"]}, "FieldValueTypeInvalid", "spec.list[0]"),
    "item value": ({"list": [1, 10]}, "FieldValueInvalid", "spec.list[1]"),
    "empty map": ({"map": {}}, "FieldValueInvalid", "spec.map"),
    "large map": ({"map": {"a": 1, "b": 2, "c": 3}}, "FieldValueTooMany", "spec.map"),
    "map value": ({"map": {"a": "x"}}, "FieldValueTypeInvalid", "spec.map.a"),
    "time": ({"time": "noon"}, "FieldValueTypeInvalid", "spec.time"),
    "date": ({"date": "tomorrow"}, "FieldValueTypeInvalid", "spec.date"),
    "uuid": ({"uuid": "x"}, "FieldValueTypeInvalid", "spec.uuid"),
    "ipv4": ({"ipv4": "1.2.3"}, "FieldValueTypeInvalid", "spec.ipv4"),
    "duration": ({"duration": "long"}, "FieldValueTypeInvalid", "spec.duration"),
    "int32 overflow": ({"small": 3_000_000_000}, "FieldValueInvalid", "<nil>"),
    "neither int nor string": ({"either": True}, "FieldValueTypeInvalid", "spec.either"),
    "null": ({"must": "x", "inner": {"a": "x", "b": 5}}, "FieldValueTypeInvalid", "spec.inner.b"),
    "inner missing": ({"inner": {}}, "FieldValueRequired", "spec.inner.a"),
    "inner type": ({"inner": {"a": "x", "b": {"c": "y"}}}, "FieldValueTypeInvalid", "spec.inner.b.c"),
    "not": ({"not": "bad"}, "FieldValueInvalid", "<nil>"),
    "any": ({"any": 3}, "FieldValueInvalid", "spec.any"),
    "one": ({"one": 3}, "FieldValueInvalid", "<nil>"),
    "all": ({"all": 1}, "FieldValueInvalid", "spec.all"),
    "set with twins": ({"set": ["a", "b", "a"]}, "FieldValueDuplicate", "spec.set[2]"),
    "keyed twins": ({"keyed": [{"k": "a"}, {"k": "a"}]}, "FieldValueDuplicate", "spec.keyed[1]"),
    "keyed without key": ({"keyed": [{"v": 1}]}, "FieldValueRequired", "spec.keyed[0].k"),
}


@pytest.fixture
def valued(define: Any) -> str:
    return define(VALUES)


def test_values_that_break_the_schema_are_refused(space: Space, valued: str) -> None:
    """One definition for all rows: establishing costs more than the rows do."""
    wrong = {}
    for row, (change, reason, field) in INVALID.items():
        spec = {"must": "x", **change}
        spec = {key: value for key, value in spec.items() if value is not None}
        reply = make(space, valued, spec, "a")
        if reply.status != 422 or (reason, field) not in reply.causes:
            wrong[row] = (reply.status, reply.body.get("message"), reply.body.get("details", {}).get("causes"))
    assert wrong == {}
    assert space.names(valued) == []


VALID: dict[str, dict[str, Any]] = {
    "least": {},
    "bounds": {"int": 1, "open": 2, "num": 1.5, "word": "abcd", "list": [9], "map": {"a": 0}},
    "formats": {"time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "ipv4": "1.2.3.4", "duration": "1h30m"},
    "int": {"either": 5},
    "string": {"either": "50%"},
    "null where allowed": {"maybe": None},
    "branches": {"any": 6, "one": 2, "all": 2, "not": "good"},
    "lists": {"set": ["a", "b"], "keyed": [{"k": "a"}, {"k": "b", "v": 1}]},
    "integer as number": {"float": 3},
    "integral fraction": {"int": 3.0},
}


def test_values_within_the_schema_are_kept(space: Space, valued: str) -> None:
    for row, spec in VALID.items():
        made = make(space, valued, {"must": "x", **spec}, row.replace(" ", "-")).ok(201)
        assert made["spec"] == {"must": "x", **spec}, row


def test_updates_are_validated(space: Space, valued: str) -> None:
    make(space, valued, {"must": "x"}).ok(201)
    refused = space.patch(valued, "a", {"spec": {"int": 77}}).refused(422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "spec.int")]
    assert "int" not in space.get(valued, "a").ok()["spec"]


def test_the_message_names_object_field_and_bound(space: Space, valued: str, unique: str) -> None:
    refused = make(space, valued, {"must": "x", "int": 9})
    assert refused.message == (
        f'Widget.{unique}.example.com "a" is invalid: spec.int: Invalid value: 9: '
        "spec.int in body should be less than or equal to 5"
    )


def test_the_message_of_an_enum_names_what_is_supported(space: Space, valued: str) -> None:
    refused = make(space, valued, {"must": "x", "choice": "z"})
    refused.refused(422, "Invalid", 'spec.choice: Unsupported value: "z": supported values: "a", "b"')


def test_unchanged_bad_values_are_tolerated(space: Space, cluster: Space, define: Any, unique: str) -> None:
    """Ratcheting: what was stored before a schema grew strict does not stand in the way of other changes."""
    widgets = define({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
    make(space, widgets, {"a": 50}).ok(201)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maximum"
    cluster.patch(
        "customresourcedefinitions", f"widgets.{unique}.example.com", [{"op": "add", "path": path, "value": 5}], "json"
    ).ok()
    eventually(lambda: make(space, widgets, {"a": 60}, "probe", dryRun="All").status == 422, "the maximum is enforced")
    assert space.patch(widgets, "a", {"spec": {"b": 1}}).ok(200)["spec"] == {"a": 50, "b": 1}
    space.patch(widgets, "a", {"spec": {"a": 51}}).refused(422, "Invalid")


def test_rules_forgive_what_did_not_change(space: Space, cluster: Space, define: Any, unique: str) -> None:
    """A rule that came after an object forgives what it was; one that cannot be evaluated on it forgives nothing."""
    lists = {"type": "array", "maxItems": 9, "items": {"type": "integer"}}
    widgets = define({"type": "object", "properties": {"list": lists, "b": {"type": "integer"}}})
    make(space, widgets, {"list": [1]}).ok(201)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"

    def rule(text: str) -> None:
        change = [{"op": "add", "path": path, "value": [{"rule": text}]}]
        cluster.patch("customresourcedefinitions", f"widgets.{unique}.example.com", change, "json").ok()

        def asked() -> bool:
            return text in make(space, widgets, {"list": [2]}, "probe", dryRun="All").raw.decode()

        eventually(asked, f"{text} is asked")

    rule("self.list.size() != 1")
    space.patch(widgets, "a", {"metadata": {"annotations": {"seen": "yes"}}}).ok(200)
    space.patch(widgets, "a", {"spec": {"b": 1}}).refused(422, "Invalid", "failed rule: self.list.size() != 1")
    rule("self.list[5] == 0")
    space.patch(widgets, "a", {"metadata": {"annotations": {"seen": "no"}}}).refused(
        422, "Invalid", "index out of bounds: 5 evaluating rule: self.list[5] == 0"
    )


def test_pruning(space: Space, define: Any) -> None:
    widgets = define(
        {
            "type": "object",
            "properties": {
                "known": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                "map": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}},
                },
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"strict": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                },
                "any": {"x-kubernetes-preserve-unknown-fields": True},
            },
        }
    )
    made = make(
        space,
        widgets,
        {
            "known": "x",
            "unknown": 1,
            "list": [{"a": 1, "b": 2}],
            "map": {"k": {"a": 1, "b": 2}},
            "free": {"what": {"ever": 1}, "strict": {"a": 1, "b": 2}},
            "any": {"deep": [{"er": None}]},
        },
    ).ok(201)
    assert made["spec"] == {
        "known": "x",
        "list": [{"a": 1}],
        "map": {"k": {"a": 1}},
        "free": {"what": {"ever": 1}, "strict": {"a": 1}},
        "any": {"deep": [{"er": None}]},
    }


def test_fields_beside_spec_and_status_are_pruned(space: Space, define: Any) -> None:
    widgets = define({"type": "object"})
    made = space.create(widgets, custom(widgets.split("/")[0], "a", spec={}, other={"x": 1})).ok(201)
    assert "other" not in made


def test_defaulting(space: Space, define: Any) -> None:
    widgets = define(
        {
            "type": "object",
            "default": {},
            "properties": {
                "a": {"type": "integer", "default": 5},
                "inner": {"type": "object", "default": {}, "properties": {"b": {"type": "string", "default": "x"}}},
                "closed": {"type": "object", "properties": {"c": {"type": "string", "default": "y"}}},
                "list": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"d": {"type": "boolean", "default": True}}},
                },
                "map": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"e": {"type": "integer", "default": 1}}},
                },
                "maybe": {"type": "string", "nullable": True, "default": "z"},
                "never": {"type": "string", "default": "n"},
            },
        }
    )
    group = widgets.split("/")[0]
    made = space.create(widgets, custom(group, "a")).ok(201)
    assert made["spec"] == {"a": 5, "inner": {"b": "x"}, "maybe": "z", "never": "n"}
    spec = {"a": 1, "closed": {}, "list": [{}, {"d": False}], "map": {"k": {}}, "maybe": None, "never": None}
    made = make(space, widgets, spec, "b").ok(201)
    assert made["spec"] == {
        "a": 1,
        "inner": {"b": "x"},
        "closed": {"c": "y"},
        "list": [{"d": True}, {"d": False}],
        "map": {"k": {"e": 1}},
        "maybe": None,
        "never": "n",
    }


def test_defaults_appear_on_reading_what_was_stored_before(
    space: Space, cluster: Space, define: Any, unique: str
) -> None:
    widgets = define({"type": "object", "properties": {"a": {"type": "integer"}}})
    make(space, widgets, {}).ok(201)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/default"
    patch = [{"op": "add", "path": path, "value": 7}]
    cluster.patch("customresourcedefinitions", f"widgets.{unique}.example.com", patch, "json").ok(200)
    eventually(lambda: space.get(widgets, "a").ok()["spec"] == {"a": 7}, "the default is shown")


def test_nulls_that_are_not_allowed_are_dropped(space: Space, define: Any) -> None:
    widgets = define({"type": "object", "properties": {"a": {"type": "string"}}})
    assert make(space, widgets, {"a": None}).ok(201)["spec"] == {}


def test_an_embedded_resource_is_an_object_with_metadata(space: Space, define: Any) -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    widgets = define({"type": "object", "properties": {"template": embedded}})
    good = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nonsense": 1}, "spec": {"any": 1}}
    made = make(space, widgets, {"template": good}).ok(201)["spec"]["template"]
    assert made["spec"] == {"any": 1}
    assert made["metadata"]["name"] == "x"
    refused = make(space, widgets, {"template": {"metadata": {"name": "x"}}}, "b").refused(422, "Invalid")
    assert ("FieldValueRequired", "spec.template.kind") in refused.causes
    assert ("FieldValueRequired", "spec.template.apiVersion") in refused.causes


def test_names_are_validated_as_subdomains(space: Space, define: Any) -> None:
    widgets = define({"type": "object"})
    refused = make(space, widgets, {}, "Not_A_Name").refused(422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "metadata.name")]


def rule(text: str, **more: Any) -> dict[str, Any]:
    return {"rule": text, **more}


def with_rules(properties: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}


NUMBERS = {"min": {"type": "integer"}, "max": {"type": "integer"}}


def test_a_rule_compares_fields(space: Space, define: Any) -> None:
    widgets = define(with_rules(NUMBERS, rule("self.min <= self.max", message="min must not exceed max")))
    make(space, widgets, {"min": 1, "max": 2}, "good").ok(201)
    refused = make(space, widgets, {"min": 3, "max": 2}, "bad")
    refused.refused(422, "Invalid", "min must not exceed max")
    assert refused.causes == [("FieldValueInvalid", "spec")]
    assert space.names(widgets) == ["good"]


def test_a_rule_without_message_names_itself(space: Space, define: Any) -> None:
    widgets = define(with_rules(NUMBERS, rule("self.min > 0")))
    make(space, widgets, {"min": 0}).refused(422, "Invalid", "failed rule: self.min > 0")


def test_a_rule_over_a_missing_field_fails(space: Space, define: Any) -> None:
    widgets = define(with_rules(NUMBERS, rule("self.min > 0")))
    make(space, widgets, {}).refused(422, "Invalid", "no such key: min evaluating rule")


def test_a_message_may_be_computed(space: Space, define: Any) -> None:
    expression = "self.min > 1 ? 'too small' : 'far too small'"
    widgets = define(with_rules(NUMBERS, rule("self.min > 5", messageExpression=expression)))
    make(space, widgets, {"min": 2}).refused(422, "Invalid", "too small")


def test_a_rule_names_its_reason_and_field(space: Space, define: Any) -> None:
    widgets = define(
        with_rules(NUMBERS, rule("self.min > 5", reason="FieldValueForbidden", fieldPath=".min", message="no"))
    )
    refused = make(space, widgets, {"min": 2}).refused(422, "Invalid", "spec.min: Forbidden: no")
    assert refused.causes == [("FieldValueForbidden", "spec.min")]


def test_a_transition_rule_is_asked_on_update_only(space: Space, define: Any) -> None:
    widgets = define(
        {
            "type": "object",
            "properties": {
                "kind": {
                    "type": "string",
                    "x-kubernetes-validations": [rule("self == oldSelf", message="kind is immutable")],
                },
                "count": {"type": "integer", "x-kubernetes-validations": [rule("self >= oldSelf", message="only up")]},
            },
        }
    )
    make(space, widgets, {"kind": "a", "count": 1}).ok(201)
    space.patch(widgets, "a", {"spec": {"count": 2}}).ok(200)
    refused = space.patch(widgets, "a", {"spec": {"count": 1}}).refused(422, "Invalid", "only up")
    assert refused.causes == [("FieldValueInvalid", "spec.count")]
    space.patch(widgets, "a", {"spec": {"kind": "b"}}).refused(422, "Invalid", "kind is immutable")
    space.patch(widgets, "a", {"spec": {"kind": None}}).ok(200)
    space.patch(widgets, "a", {"spec": {"kind": "c"}}).ok(200)


def test_transition_rules_reach_keyed_list_items(space: Space, define: Any) -> None:
    items = {
        "type": "object",
        "required": ["k"],
        "properties": {
            "k": {"type": "string"},
            "v": {"type": "integer", "x-kubernetes-validations": [rule("self >= oldSelf")]},
        },
    }
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items}
    widgets = define({"type": "object", "properties": {"list": keyed}})
    make(space, widgets, {"list": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}).ok(201)
    space.patch(widgets, "a", {"spec": {"list": [{"k": "b", "v": 2}, {"k": "a", "v": 5}]}}).ok(200)
    refused = space.patch(widgets, "a", {"spec": {"list": [{"k": "c", "v": 0}, {"k": "a", "v": 4}]}})
    assert refused.refused(422, "Invalid").causes == [("FieldValueInvalid", "spec.list[1].v")]


def test_an_optional_old_self_is_absent_on_create(space: Space, define: Any) -> None:
    text = "oldSelf.hasValue() || self.min == 1"
    widgets = define(with_rules(NUMBERS, rule(text, optionalOldSelf=True, message="must begin at 1")))
    make(space, widgets, {"min": 2}, "bad").refused(422, "Invalid", "must begin at 1")
    make(space, widgets, {"min": 1}).ok(201)
    space.patch(widgets, "a", {"spec": {"min": 2}}).ok(200)


def test_a_rule_of_the_root_sees_name_and_generate_name(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    definition = crd(group)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [rule("self.metadata.name.startsWith('w-')", message="must begin with w-")]
    cluster.establish(definition)
    space.create(f"{group}/v1/widgets", custom(group, "w-1")).ok(201)
    space.create(f"{group}/v1/widgets", custom(group, "x-1")).refused(422, "Invalid", "must begin with w-")


def test_rules_of_items_and_map_values(space: Space, define: Any) -> None:
    positive = {"type": "integer", "x-kubernetes-validations": [rule("self > 0", message="must be positive")]}
    widgets = define(
        {
            "type": "object",
            "properties": {
                "list": {"type": "array", "maxItems": 5, "items": positive},
                "map": {"type": "object", "maxProperties": 5, "additionalProperties": positive},
            },
        }
    )
    refused = make(space, widgets, {"list": [1, 0], "map": {"a": 0}}).refused(422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", "spec.list[1]"), ("FieldValueInvalid", "spec.map[a]")]


ANSWERS: dict[str, tuple[dict[str, Any], str, Any, Any]] = {
    "quantity": ({"type": "string", "maxLength": 20}, "quantity(self).compareTo(quantity('1Gi')) >= 0", "2Gi", "512Mi"),
    "is quantity": ({"type": "string", "maxLength": 20}, "isQuantity(self)", "100m", "fast"),
    "matches": ({"type": "string", "maxLength": 20}, "self.matches('^a+$')", "aaa", "ab"),
    "split": ({"type": "string", "maxLength": 20}, "self.split('-').size() == 2", "a-b", "a"),
    "starts with": ({"type": "string", "maxLength": 20}, "self.startsWith('x') && self.endsWith('y')", "x-y", "y-x"),
    "size of text": ({"type": "string", "maxLength": 20}, "size(self) == 3", "äöü", "ab"),
    "sorted": ({"type": "array", "maxItems": 5, "items": {"type": "integer"}}, "self.isSorted()", [1, 2], [2, 1]),
    "sum": ({"type": "array", "maxItems": 5, "items": {"type": "integer"}}, "self.sum() == 3", [1, 2], [2, 2]),
    "max": ({"type": "array", "maxItems": 5, "items": {"type": "integer"}}, "self.max() < 9", [1, 2], [9]),
    "all": ({"type": "array", "maxItems": 5, "items": {"type": "integer"}}, "self.all(x, x % 2 == 0)", [2, 4], [2, 3]),
    "exists one": (
        {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "self.exists_one(x, x == 1)",
        [1, 2],
        [1, 1],
    ),
    "map and filter": (
        {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "self.filter(x, x > 1).map(x, x * 2) == [4]",
        [1, 2],
        [3],
    ),
    "in": ({"type": "string", "maxLength": 9}, "self in ['a', 'b']", "a", "c"),
    "ternary": ({"type": "integer"}, "self > 5 ? self < 9 : self == 1", 1, 3),
    "url": (
        {"type": "string", "maxLength": 40},
        "isURL(self) && url(self).getScheme() == 'https'",
        "https://a.b",
        "http://a.b",
    ),
    "map keys": (
        {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 9}},
        "self.all(k, k.startsWith('a'))",
        {"ab": "x"},
        {"b": "x"},
    ),
    "int or string": ({"x-kubernetes-int-or-string": True}, "type(self) == int ? self > 1 : self == '50%'", "50%", 1),
    "time": (
        {"type": "string", "format": "date-time"},
        "self > timestamp('2020-01-01T00:00:00Z')",
        "2026-01-01T00:00:00Z",
        "2001-01-01T00:00:00Z",
    ),
    "duration": ({"type": "string", "format": "duration"}, "self > duration('1m')", "1h", "5s"),
    "find": ({"type": "string", "maxLength": 20}, "self.find('[0-9]+') == '12'", "ab12", "ab"),
    "lower": ({"type": "string", "maxLength": 20}, "self.lowerAscii() == self", "abc", "Abc"),
    "ip": ({"type": "string", "maxLength": 40}, "isIP(self) && ip(self).family() == 4", "10.0.0.1", "::1"),
    "cidr": ({"type": "string", "maxLength": 40}, "cidr('10.0.0.0/8').containsIP(self)", "10.1.2.3", "11.0.0.1"),
    "format": ({"type": "string", "maxLength": 70}, "!format.dns1123Label().validate(self).hasValue()", "abc", "A.B"),
    "semver": ({"type": "string", "maxLength": 20}, "semver(self).isGreaterThan(semver('1.2.0'))", "1.10.0", "1.1.0"),
    "sets": (
        {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
        "sets.contains(['a', 'b'], self)",
        ["a"],
        ["c"],
    ),
    "escaped name": (
        {"type": "object", "properties": {"namespace": {"type": "string"}, "a-b": {"type": "integer"}}},
        "self.__namespace__ == 'x' && self.a__dash__b == 1",
        {"namespace": "x", "a-b": 1},
        {"namespace": "x", "a-b": 2},
    ),
}


@pytest.mark.parametrize("row", ANSWERS)
def test_the_language_of_rules(row: str, space: Space, define: Any) -> None:
    schema, text, good, bad = ANSWERS[row]
    value = {**schema, "x-kubernetes-validations": [rule(text, message="the rule says no")]}
    widgets = define({"type": "object", "properties": {"x": value}})
    assert make(space, widgets, {"x": good}, "good").ok(201)["spec"]["x"] == good
    refused = make(space, widgets, {"x": bad}, "bad").refused(422, "Invalid", "the rule says no")
    assert refused.causes == [("FieldValueInvalid", "spec.x")]


def test_rules_of_status_are_asked_through_its_door(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    status = with_rules({"seen": {"type": "integer"}}, rule("self.seen >= 0", message="cannot be negative"))
    cluster.establish(crd(group, {"spec": {"type": "object"}, "status": status}, subresources={"status": {}}))
    widgets = f"{group}/v1/widgets"
    space.create(widgets, custom(group, "a")).ok(201)
    space.patch(widgets, "a", {"status": {"seen": -1}}, sub="status").refused(422, "Invalid", "cannot be negative")
    space.patch(widgets, "a", {"status": {"seen": 1}}, sub="status").ok(200)
