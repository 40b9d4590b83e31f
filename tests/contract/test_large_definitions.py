"""A definition as people have them: a whole pod template inside, and rules in CEL over it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster_kit.objects import crd, custom, merged
from cluster_kit.space import Space

Json = dict[str, Any]


KEPT = (
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "description",
)


def inlined(schemas: Json, schema: Json) -> Json:
    """A structural schema without references, as generators write it from Go types."""
    if "allOf" in schema:
        described = {key: schema[key] for key in ("description",) if key in schema}
        return {**inlined(schemas, schema["allOf"][0]), **described}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name.endswith((".IntOrString", ".Quantity")):
            return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
        return inlined(schemas, schemas[name])
    out = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        out["properties"] = {key: inlined(schemas, each) for key, each in schema["properties"].items()}
    if "items" in schema:
        out["items"] = inlined(schemas, schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = inlined(schemas, schema["additionalProperties"])
    keys = out.get("x-kubernetes-list-map-keys", [])
    for key in keys:
        if key not in out["items"].get("required", []):
            out["items"]["properties"][key]["default"] = "TCP" if key == "protocol" else ""
    return out


RULES = [
    {"rule": "self.minAvailable <= self.replicas", "message": "minAvailable must not exceed replicas"},
    {
        "rule": "self.template.spec.containers.all(c, has(c.image) && c.image != '')",
        "message": "every container needs an image",
    },
    {"rule": "self.role == oldSelf.role", "message": "role is immutable"},
]


@pytest.fixture
def gangs(cluster: Space, unique: str) -> str:
    """A kind with a pod template of some hundred fields and rules over it."""
    schemas = json.loads(cluster.server.http("GET", "/openapi/v3/api/v1").raw)["components"]["schemas"]
    template = inlined(schemas, schemas["io.k8s.api.core.v1.PodTemplateSpec"])
    template["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    containers = template["properties"]["spec"]["properties"]["containers"]
    containers["maxItems"] = 20
    containers["items"]["properties"]["image"]["maxLength"] = 500
    spec = {
        "type": "object",
        "required": ["template", "replicas", "minAvailable", "role"],
        "properties": {
            "replicas": {"type": "integer", "minimum": 0},
            "minAvailable": {"type": "integer"},
            "role": {"type": "string", "maxLength": 30},
            "surge": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "template": template,
        },
        "x-kubernetes-validations": RULES,
    }
    group = f"{unique}.example.com"
    cluster.establish(crd(group, {"spec": spec}, kind="Gang"))
    return f"{group}/v1/gangs"


def gang(gangs: str, **change: Any) -> Json:
    container = {
        "name": "main",
        "image": "example.com/app:1",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": 2, "memory": "1Gi"}},
        "readinessProbe": {"httpGet": {"port": "http"}},
    }
    spec = {
        "replicas": 3,
        "minAvailable": 2,
        "role": "worker",
        "surge": "25%",
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
    }
    return custom(gangs.split("/")[0], "g", kind="Gang", spec=merged(spec, change))


def test_a_large_definition_is_enforced(space: Space, gangs: str) -> None:
    made = space.create(gangs, gang(gangs), fieldValidation="Strict").ok(201)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": 2, "memory": "1Gi"}
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["readinessProbe"]["httpGet"]["port"] == "http"
    assert made["spec"]["surge"] == "25%"


BAD: dict[str, tuple[Json, tuple[str, str]]] = {
    "rule across fields": ({"minAvailable": 9}, ("FieldValueInvalid", "spec")),
    "rule over containers": (
        {"template": {"spec": {"containers": [{"name": "main"}]}}},
        ("FieldValueInvalid", "spec"),
    ),
    "deep type": (
        {"template": {"spec": {"containers": [{"name": "main", "image": "i", "env": [{"name": 5}]}]}}},
        ("FieldValueTypeInvalid", "spec.template.spec.containers[0].env[0].name"),
    ),
    "deep int or string": (
        {
            "template": {
                "spec": {"containers": [{"name": "main", "image": "i", "livenessProbe": {"tcpSocket": {"port": []}}}]}
            }
        },
        ("FieldValueTypeInvalid", "spec.template.spec.containers[0].livenessProbe.tcpSocket.port"),
    ),
    "twin containers": (
        {"template": {"spec": {"containers": [{"name": "main", "image": "i"}, {"name": "main", "image": "i"}]}}},
        ("FieldValueDuplicate", "spec.template.spec.containers[1]"),
    ),
    "deep requirement": (
        {"template": {"spec": {"containers": [{"name": "main", "image": "i", "ports": [{"protocol": "UDP"}]}]}}},
        ("FieldValueRequired", "spec.template.spec.containers[0].ports[0].containerPort"),
    ),
}


def test_what_breaks_a_large_definition_is_refused(space: Space, gangs: str) -> None:
    wrong = {}
    for row, (change, cause) in BAD.items():
        reply = space.create(gangs, gang(gangs, **change))
        if reply.status != 422 or cause not in reply.causes:
            wrong[row] = (reply.status, reply.message)
    assert wrong == {}
    refused = space.create(gangs, gang(gangs, template={"spec": {"nodeNam": "x"}}), fieldValidation="Strict")
    refused.refused(400, "BadRequest", 'unknown field "spec.template.spec.nodeNam"')
    assert space.names(gangs) == []


def test_a_transition_rule_of_a_large_definition(space: Space, gangs: str) -> None:
    space.create(gangs, gang(gangs)).ok(201)
    space.patch(gangs, "g", {"spec": {"role": "leader"}}).refused(422, "Invalid", "role is immutable")
    space.patch(gangs, "g", {"spec": {"replicas": 5}}).ok(200)


def test_two_owners_of_one_template(space: Space, gangs: str) -> None:
    space.apply(gangs, gang(gangs), manager="one").ok(201)
    side = gang(gangs)
    side["spec"] = {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}
    now = space.apply(gangs, side, manager="two").ok(200)
    assert [each["name"] for each in now["spec"]["template"]["spec"]["containers"]] == ["main", "side"]
    side["spec"]["template"]["spec"]["containers"] = [{"name": "main", "image": "example.com/other:1"}]
    refused = space.apply(gangs, side, manager="two")
    refused.refused(409, "Conflict", '.spec.template.spec.containers[name="main"].image')
