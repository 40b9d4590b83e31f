"""CustomResourceDefinitions: what is accepted, what is refused, and what a kind becomes."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_kit.objects import SPEC_AND_STATUS, crd, custom, merged
from cluster_kit.server import eventually
from cluster_kit.space import Space


def conditions(definition: Any) -> dict[str, str]:
    return {each["type"]: each["status"] for each in definition["status"]["conditions"] or []}


def test_a_definition_is_established(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    now = cluster.establish(crd(group))
    assert conditions(now)["NamesAccepted"] == conditions(now)["Established"] == "True"
    assert now["status"]["acceptedNames"] == now["spec"]["names"]
    assert now["status"]["storedVersions"] == ["v1"]
    assert now["spec"]["conversion"] == {"strategy": "None"}


def test_names_are_defaulted(cluster: Space, unique: str) -> None:
    definition = crd(f"{unique}.example.com")
    definition["spec"]["names"] = {"plural": "widgets", "kind": "Widget"}
    made = cluster.create("customresourcedefinitions", definition).ok(201)
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }


def test_objects_are_served_and_stored(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    widgets = f"{group}/v1/widgets"
    made = space.create(widgets, custom(group, "a", spec={"size": 3, "tags": ["x"]})).ok(201)
    assert (made["apiVersion"], made["kind"]) == (f"{group}/v1", "Widget")
    assert made["metadata"]["generation"] == 1
    assert space.get(widgets, "a").ok() == made
    listed = space.list(widgets)
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", f"{group}/v1")
    assert listed["items"] == [made]


def test_cluster_scoped_objects(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group, scope="Cluster"))
    made = cluster.create(f"{group}/v1/widgets", custom(group, "a")).ok(201)
    assert "namespace" not in made["metadata"]
    assert space.get(f"{group}/v1/widgets", "a").status == 404


def test_a_kind_goes_with_its_definition(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    name = f"widgets.{group}"
    cluster.establish(crd(group))
    space.create(f"{group}/v1/widgets", custom(group, "a")).ok(201)
    answer = cluster.delete("customresourcedefinitions", name).ok(200)
    assert answer.get("kind") in ("CustomResourceDefinition", "Status")
    cluster.gone("customresourcedefinitions", name)
    eventually(lambda: space.get(f"{group}/v1/widgets").status == 404, "the kind is not served any more")
    cluster.establish(crd(group))
    assert space.names(f"{group}/v1/widgets") == []


def test_a_living_definition_has_no_finalizer(cluster: Space, unique: str) -> None:
    definition = crd(f"{unique}.example.com")
    assert "finalizers" not in cluster.establish(definition)["metadata"]


def test_held_objects_hold_their_definition(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    name = f"widgets.{group}"
    cluster.establish(crd(group))
    body = custom(group, "a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    space.create(f"{group}/v1/widgets", body).ok(201)
    cluster.delete("customresourcedefinitions", name).ok(200)

    def deleting() -> bool:
        now = space.get(f"{group}/v1/widgets", "a").ok()
        return "deletionTimestamp" in now["metadata"]

    eventually(deleting, "the object is being deleted")
    assert cluster.exists("customresourcedefinitions", name)
    space.create(f"{group}/v1/widgets", custom(group, "late")).refused(
        403, "Forbidden", "create not allowed while custom resource definition is terminating"
    )
    space.patch(f"{group}/v1/widgets", "a", {"metadata": {"finalizers": None}}).ok(200)
    cluster.gone("customresourcedefinitions", name)


def test_a_second_definition_of_the_same_names_is_not_accepted(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    second = crd(group, kind="Gadget")
    second["spec"]["names"] |= {"kind": "Widget", "listKind": "WidgetList"}
    cluster.create("customresourcedefinitions", second).ok(201)

    def refused() -> bool:
        now = cluster.get("customresourcedefinitions", f"gadgets.{group}").ok()
        return conditions(now).get("NamesAccepted") == "False" and conditions(now).get("Established") == "False"

    eventually(refused, "the names are not accepted")
    assert cluster.server.http("GET", f"/apis/{group}/v1/gadgets").status == 404


def test_a_changed_schema_is_enforced(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    now = cluster.get("customresourcedefinitions", f"widgets.{group}").ok()
    now["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 5
    cluster.replace("customresourcedefinitions", now).ok(200)

    def enforced() -> bool:
        reply = space.create(f"{group}/v1/widgets", custom(group, "a", spec={"size": 9}), dryRun="All")
        return reply.status == 422

    eventually(enforced, "the new maximum is enforced")


def root(**schema: Any) -> Any:
    def change(definition: Any) -> None:
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema

    return change


def spec_schema(**schema: Any) -> Any:
    return root(type="object", properties={"spec": schema})


def prop(**schema: Any) -> Any:
    return spec_schema(type="object", properties={"x": schema})


def spec(**change: Any) -> Any:
    def apply(definition: Any) -> None:
        definition["spec"] = merged(definition["spec"], change)

    return apply


def versions(*changes: dict[str, Any]) -> Any:
    def apply(definition: Any) -> None:
        (first,) = definition["spec"]["versions"]
        definition["spec"]["versions"] = [merged(first, change) for change in changes]

    return apply


REFUSED: dict[str, tuple[Any, str]] = {
    "name that is not plural and group": (lambda d: d["metadata"].update(name="other.example.com"), "metadata.name"),
    "no group": (spec(group=""), "spec.group"),
    "a bad group": (spec(group="Not A Group"), "spec.group"),
    "an unknown scope": (spec(scope="Galaxy"), "spec.scope"),
    "no scope": (spec(scope=""), "spec.scope"),
    "no kind": (spec(names={"kind": ""}), "spec.names.kind"),
    "a bad kind": (spec(names={"kind": "has space"}), "spec.names.kind"),
    "a bad plural": (spec(names={"plural": "Has.Dots"}), "spec.names.plural"),
    "a bad short name": (spec(names={"shortNames": ["UPPER"]}), "spec.names.shortNames[0]"),
    "kind equals list kind": (spec(names={"listKind": "Widget"}), "spec.names.listKind"),
    "no versions": (spec(versions=[]), "spec.versions"),
    "no storage version": (versions({"storage": False}), "spec.versions"),
    "two storage versions": (versions({}, {"name": "v2"}), "spec.versions"),
    "the same version twice": (versions({}, {"storage": False}), "spec.versions"),
    "a bad version name": (versions({"name": "V.1"}), "spec.versions[0].name"),
    "no schema": (versions({"schema": None}), "spec.versions[0].schema.openAPIV3Schema"),
    "preserveUnknownFields": (spec(preserveUnknownFields=True), "spec.preserveUnknownFields"),
    "root is no object": (root(type="string"), "type"),
    "no type": (prop(description="x"), "type"),
    "an unknown type": (prop(type="text"), "type"),
    "array without items": (prop(type="array"), "items"),
    "items as a list": (prop(type="array", items=[{"type": "string"}]), "items"),
    "properties and additionalProperties": (
        prop(type="object", properties={"a": {"type": "string"}}, additionalProperties={"type": "string"}),
        "additionalProperties",
    ),
    "type inside anyOf": (prop(type="string", anyOf=[{"type": "string"}]), "anyOf[0].type"),
    "$ref": (prop(**{"$ref": "#/definitions/x"}), "$ref"),
    "uniqueItems": (prop(type="array", uniqueItems=True, items={"type": "string"}), "uniqueItems"),
    "metadata with rules": (
        root(type="object", properties={"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
        "metadata",
    ),
    "map list without keys": (
        prop(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map"}),
        "x-kubernetes-list-map-keys",
    ),
    "map list whose key is no property": (
        prop(
            type="array",
            items={"type": "object", "properties": {"a": {"type": "string"}}},
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]},
        ),
        "x-kubernetes-list-map-keys",
    ),
    "map list with an optional key": (
        prop(
            type="array",
            items={"type": "object", "properties": {"a": {"type": "string"}}},
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        ),
        "a].default",
    ),
    "map list of texts": (
        prop(
            type="array",
            items={"type": "string"},
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
        ),
        "items",
    ),
    "an unknown list type": (
        prop(type="array", items={"type": "string"}, **{"x-kubernetes-list-type": "bag"}),
        "x-kubernetes-list-type",
    ),
    "list type on an object": (prop(type="object", **{"x-kubernetes-list-type": "set"}), "type"),
    "a default of the wrong type": (prop(type="integer", default="x"), "default"),
    "a default outside the enum": (prop(type="string", enum=["a"], default="b"), "default"),
    "a default with unknown fields": (
        prop(type="object", properties={"a": {"type": "string"}}, default={"b": 1}),
        "default",
    ),
    "a bad pattern": (prop(type="string", pattern="("), "pattern"),
    "embedded resource of a text": (prop(type="string", **{"x-kubernetes-embedded-resource": True}), "type"),
    "a CEL rule that cannot be compiled": (
        prop(type="integer", **{"x-kubernetes-validations": [{"rule": "self >", "message": "m"}]}),
        "x-kubernetes-validations[0].rule",
    ),
    "a CEL rule over an unknown field": (
        prop(
            type="object",
            properties={"a": {"type": "string"}},
            **{"x-kubernetes-validations": [{"rule": "self.b == 'x'"}]},
        ),
        "x-kubernetes-validations[0].rule",
    ),
    "a CEL rule that is no question": (
        prop(type="integer", **{"x-kubernetes-validations": [{"rule": "self + 1"}]}),
        "x-kubernetes-validations[0].rule",
    ),
    "a CEL rule that mixes types": (
        prop(type="integer", **{"x-kubernetes-validations": [{"rule": "self == 'x'"}]}),
        "x-kubernetes-validations[0].rule",
    ),
    "an empty CEL rule": (
        prop(type="integer", **{"x-kubernetes-validations": [{"rule": " "}]}),
        "x-kubernetes-validations[0].rule",
    ),
    "oldSelf in a list without keys": (
        prop(
            type="array",
            maxItems=3,
            items={"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        ),
        "x-kubernetes-validations[0].rule",
    ),
    "a CEL rule that may cost too much": (
        prop(
            type="array",
            items={"type": "string"},
            **{"x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, self.all(c, a + b == c)))"}]},
        ),
        "x-kubernetes-validations[0].rule",
    ),
    "a message expression that is no text": (
        prop(type="integer", **{"x-kubernetes-validations": [{"rule": "self > 1", "messageExpression": "self"}]}),
        "x-kubernetes-validations[0].messageExpression",
    ),
    "a printer column of an unknown type": (
        versions({"additionalPrinterColumns": [{"name": "a", "type": "thing", "jsonPath": ".spec.size"}]}),
        "additionalPrinterColumns[0].type",
    ),
    "a printer column without a path": (
        versions({"additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": ""}]}),
        "additionalPrinterColumns[0].JSONPath",
    ),
    "a printer column with a bad path": (
        versions({"additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": "spec.size"}]}),
        "additionalPrinterColumns[0].JSONPath",
    ),
    "scale without a path": (
        versions({"subresources": {"scale": {"specReplicasPath": "", "statusReplicasPath": ".status.seen"}}}),
        "specReplicasPath",
    ),
    "scale outside the spec": (
        versions(
            {"subresources": {"scale": {"specReplicasPath": ".metadata.x", "statusReplicasPath": ".status.seen"}}}
        ),
        "specReplicasPath",
    ),
    "a selectable field that is not there": (
        versions({"selectableFields": [{"jsonPath": ".spec.absent"}]}),
        "selectableFields[0].jsonPath",
    ),
    "an unknown conversion": (spec(conversion={"strategy": "Magic"}), "spec.conversion.strategy"),
    "webhook conversion without a webhook": (spec(conversion={"strategy": "Webhook"}), "spec.conversion.webhook"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_bad_definition_is_refused(row: str, cluster: Space, unique: str) -> None:
    change, where = REFUSED[row]
    definition = crd(f"{unique}.example.com")
    change(definition)
    refused = cluster.create("customresourcedefinitions", definition).refused(422, "Invalid")
    assert any(where in field for _, field in refused.causes), refused.causes
    assert cluster.server.http("GET", f"/apis/{unique}.example.com").status == 404


ACCEPTED: dict[str, Any] = {
    "int or string": prop(**{"x-kubernetes-int-or-string": True}),
    "int or string with patterns": prop(
        anyOf=[{"type": "integer"}, {"type": "string"}], pattern="^[0-9]+%?$", **{"x-kubernetes-int-or-string": True}
    ),
    "anything": prop(**{"x-kubernetes-preserve-unknown-fields": True}),
    "nullable": prop(type="string", nullable=True),
    "enum": prop(type="string", enum=["a", "b"]),
    "map": prop(type="object", additionalProperties={"type": "integer"}),
    "nested defaults": prop(type="object", default={}, properties={"a": {"type": "string", "default": "x"}}),
    "embedded resource": prop(
        type="object", **{"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    ),
    "value validations in allOf": prop(type="integer", allOf=[{"minimum": 1}, {"maximum": 5}]),
    "not": prop(type="string", **{"not": {"enum": ["bad"]}}),
    "format": prop(type="string", format="date-time"),
    "an unknown format": prop(type="string", format="very-special"),
    "CEL": prop(type="integer", **{"x-kubernetes-validations": [{"rule": "self > 1", "message": "m"}]}),
    "CEL with optional oldSelf": prop(
        type="integer", **{"x-kubernetes-validations": [{"rule": "!oldSelf.hasValue()", "optionalOldSelf": True}]}
    ),
    "CEL with the libraries": spec_schema(
        type="object",
        properties={
            "q": {"type": "string", "maxLength": 20},
            "l": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
        },
        **{
            "x-kubernetes-validations": [
                {"rule": "!has(self.q) || quantity(self.q).isGreaterThan(quantity('1Gi'))"},
                {"rule": "!has(self.l) || self.l.isSorted()"},
                {"rule": "!has(self.q) || self.q.matches('^[0-9]')"},
                {"rule": "!has(self.l) || self.l.sum() < 100"},
                {"rule": "!has(self.q) || self.q.lowerAscii().size() > 0"},
            ]
        },
    ),
    "a root that keeps all": root(type="object", **{"x-kubernetes-preserve-unknown-fields": True}),
    "only a type": root(type="object"),
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_a_good_definition_is_established(row: str, cluster: Space, unique: str) -> None:
    definition = crd(f"{unique}.example.com")
    ACCEPTED[row](definition)
    cluster.establish(definition)


IMMUTABLE: dict[str, Any] = {
    "group": spec(group="other.example.com"),
    "plural": spec(names={"plural": "others"}),
    "scope": spec(scope="Cluster"),
    "kind": spec(names={"kind": "Other", "listKind": "OtherList"}),
}


@pytest.mark.parametrize("row", IMMUTABLE)
def test_what_names_a_kind_cannot_be_changed(row: str, cluster: Space, unique: str) -> None:
    definition = crd(f"{unique}.example.com")
    made = cluster.establish(definition)
    IMMUTABLE[row](made)
    cluster.replace("customresourcedefinitions", made).refused(422, "Invalid")


def test_a_stored_version_cannot_be_dropped(cluster: Space, unique: str) -> None:
    definition = crd(f"{unique}.example.com")
    cluster.establish(definition)
    patch = [{"op": "replace", "path": "/spec/versions/0/name", "value": "v2"}]
    refused = cluster.patch("customresourcedefinitions", definition["metadata"]["name"], patch, "json")
    refused.refused(422, "Invalid", "status.storedVersions")


def two_versions(group: str) -> Any:
    definition = crd(group)
    (first,) = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**first, "name": "v1beta1", "storage": False}, first]
    return definition


def test_an_object_is_served_in_every_version(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(two_versions(group))
    made = space.create(f"{group}/v1beta1/widgets", custom(group, "a", version="v1beta1", spec={"size": 1})).ok(201)
    assert made["apiVersion"] == f"{group}/v1beta1"
    seen = space.get(f"{group}/v1/widgets", "a").ok()
    assert (seen["apiVersion"], seen["spec"]) == (f"{group}/v1", {"size": 1})
    assert (seen["metadata"]["uid"], seen["metadata"]["resourceVersion"]) == (
        made["metadata"]["uid"],
        made["metadata"]["resourceVersion"],
    )
    space.patch(f"{group}/v1/widgets", "a", {"spec": {"size": 2}}).ok(200)
    assert space.get(f"{group}/v1beta1/widgets", "a").ok()["spec"] == {"size": 2}


def test_a_watch_speaks_the_version_it_was_opened_in(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(two_versions(group))
    start = space.list(f"{group}/v1beta1/widgets")["metadata"]["resourceVersion"]
    space.create(f"{group}/v1/widgets", custom(group, "a")).ok(201)
    with space.watch(f"{group}/v1beta1/widgets", resourceVersion=start) as watch:
        assert watch.next()["object"]["apiVersion"] == f"{group}/v1beta1"


def test_a_version_that_is_not_served_is_not_there(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    definition = two_versions(group)
    definition["spec"]["versions"][0]["served"] = False
    cluster.establish(definition)
    assert space.get(f"{group}/v1beta1/widgets").status == 404


def test_a_deprecated_version_warns(space: Space, cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    definition = two_versions(group)
    definition["spec"]["versions"][0] |= {"deprecated": True, "deprecationWarning": "use v1"}
    cluster.establish(definition)
    assert space.get(f"{group}/v1beta1/widgets").warnings == ["use v1"]
    assert space.get(f"{group}/v1/widgets").warnings == []


def test_the_storage_version_is_remembered(cluster: Space, unique: str) -> None:
    group = f"{unique}.example.com"
    cluster.establish(two_versions(group))
    now = cluster.get("customresourcedefinitions", f"widgets.{group}").ok()
    for version in now["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    changed = cluster.replace("customresourcedefinitions", now).ok(200)
    assert sorted(changed["status"]["storedVersions"]) == ["v1", "v1beta1"]


def test_the_status_of_a_definition_has_its_own_door(cluster: Space, unique: str) -> None:
    definition = crd(f"{unique}.example.com", SPEC_AND_STATUS)
    definition["status"] = {"storedVersions": ["v9"], "conditions": [], "acceptedNames": {"plural": "x", "kind": "X"}}
    made = cluster.create("customresourcedefinitions", definition).ok(201)
    assert made["status"]["storedVersions"] == ["v1"]
