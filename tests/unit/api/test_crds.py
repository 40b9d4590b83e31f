"""The CRDs: generated, bounded, described, and saying no to what they must not take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from kube_embedded.customresources.schema_check import check_schema
from kube_embedded.schema.cel.rules import Rules
from kube_embedded.schema.shaping import compile_structural
from kube_embedded.schema.validate import Validator
from spinney.api.crds import Conversion, all_crds, crd
from spinney.api.crds.catalog import DEFINITIONS
from spinney.api.crds.definition import SchemaError, object_schema
from spinney.api.meta import Slim
from spinney.cli.commands.manifests import manifests

GOLDEN = Path(__file__).parents[2] / "golden"
SAMPLES = yaml.safe_load((GOLDEN / "crd_samples.yaml").read_text())
OPAQUE = "x-kubernetes-preserve-unknown-fields"
VERSIONS = [(version.type.KIND, version.name) for one in DEFINITIONS for version in one.versions]

Json = dict[str, Any]


def version_of(kind: str, version: str) -> Json:
    return next(one for one in crd(kind)["spec"]["versions"] if one["name"] == version)


def schema_of(kind: str, version: str) -> Json:
    return version_of(kind, version)["schema"]["openAPIV3Schema"]


def fields(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema with its path; `.name` is a field, `[]` an item, `{}` a map value."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from fields(below, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


def test_the_printed_crds_are_the_golden_ones() -> None:
    """After a wanted change: `spinney manifests crds --without-webhook > tests/golden/crds.yaml`."""
    printed = CliRunner().invoke(manifests, ["crds", "--without-webhook"])
    assert printed.exit_code == 0
    assert printed.output == (GOLDEN / "crds.yaml").read_text()


def test_the_json_form_is_a_list_of_the_same_crds() -> None:
    printed = CliRunner().invoke(manifests, ["crds", "--without-webhook", "-o", "json"])
    assert json.loads(printed.output) == {"apiVersion": "v1", "kind": "List", "items": all_crds()}


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_every_field_says_what_it_means(kind: str, version: str) -> None:
    """But for the fields of a pod: Kubernetes says what these mean."""
    mute = [
        path
        for path, schema in fields(schema_of(kind, version))
        if ".podSpec." not in path and not path.endswith(("[]", "{}", ".metadata")) and not schema.get("description")
    ]
    assert mute == []


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_every_list_map_and_string_is_bounded(kind: str, version: str) -> None:
    unbounded = [
        path
        for path, schema in fields(schema_of(kind, version))
        if path not in (".apiVersion", ".kind") and not is_bounded(schema)
    ]
    assert unbounded == []


def is_bounded(schema: Json) -> bool:
    match schema.get("type"):
        case "string":
            return "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
        case "array":
            return "maxItems" in schema
        case "object" if "additionalProperties" in schema:
            return "maxProperties" in schema
        case None:
            return "maxLength" in schema
    return True


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_every_schema_is_structural_and_its_rules_compile(kind: str, version: str) -> None:
    assert check_schema(schema_of(kind, version), "schema") == []


def collection(kind: str, version: str) -> tuple[Validator, Rules | None]:
    raw = schema_of(kind, version)
    return Validator(raw), Rules.of(raw, compile_structural(raw))


@pytest.mark.parametrize("sample", SAMPLES, ids=[one["name"] for one in SAMPLES])
def test_samples_are_taken_or_refused_with_the_words_given(sample: Json) -> None:
    obj = sample["object"]
    validator, rules = collection(obj["kind"], obj["apiVersion"].split("/")[1])
    errors = validator.validate(obj) or (rules.validate(obj, None) if rules else [])
    shown = "\n".join(str(error) for error in errors)
    if "refused" in sample:
        assert [text for text in sample["refused"] if text not in shown] == [], shown
    else:
        assert shown == ""


@pytest.mark.parametrize("sample", [one for one in SAMPLES if "refused" not in one], ids=lambda one: str(one["name"]))
def test_good_samples_can_be_read_as_typed_objects(sample: Json) -> None:
    obj = sample["object"]
    for definition in DEFINITIONS:
        for version in definition.versions:
            if (version.type.KIND, f"{version.type.GROUP}/{version.name}") == (obj["kind"], obj["apiVersion"]):
                read = msgspec.convert(obj, version.type)
                assert msgspec.to_builtins(read)["spec"].keys() <= obj["spec"].keys()


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_what_the_server_fills_in_is_what_the_types_assume(kind: str, version: str) -> None:
    type_ = next(v.type for one in DEFINITIONS for v in one.versions if (v.type.KIND, v.name) == (kind, version))
    assert list(differing_defaults(type_, schema_of(kind, version), kind)) == []


def differing_defaults(kind: type[Slim], schema: Json, path: str) -> Iterator[str]:
    for one in msgspec.structs.fields(kind):
        if one.name == "metadata":
            continue
        below = schema["properties"][one.encode_name]
        if "default" in below and below["default"] != one.default:
            yield f"{path}.{one.encode_name}"
        for part in structs_in(one.type):
            inner = below.get("items") or below.get("additionalProperties") or below
            if "properties" in inner:
                yield from differing_defaults(part, inner, f"{path}.{one.encode_name}")


def structs_in(annotation: Any) -> list[type[Slim]]:
    if isinstance(annotation, type) and issubclass(annotation, Slim):
        return [annotation]
    return [part for inner in getattr(annotation, "__args__", ()) for part in structs_in(inner)]


@pytest.mark.parametrize(
    ("kind", "short", "columns"),
    [
        (
            "PodCliqueSet",
            ["pcs"],
            "Replicas Available Updated PCLQs-Updated PCLQs-Total PCSGs-Updated PCSGs-Total Age",
        ),
        ("PodClique", ["pclq"], "MinAvail Replicas Ready Scheduled Updated Gated MinBreached Age"),
        (
            "PodCliqueScalingGroup",
            ["pcsg"],
            "MinAvail Replicas Available Scheduled Updated PCLQs-Updated PCLQs-Total MinBreached Age",
        ),
        ("ClusterTopology", ["ct"], "Domains Level-2 Level-3 Level-4 Level-5 Level-6 Level-7 Drift Age"),
        ("PodGang", ["pg"], "Phase Scheduled Reason Score Message Age"),
        ("PodGroup", ["pg"], "Queue Min Waiting GPUs Score Topology Message Age"),
        ("DynamoGraphDeployment", ["dgd"], "Ready Backend Age"),
    ],
)
def test_short_names_and_columns(kind: str, short: list[str], columns: str) -> None:
    spec = crd(kind)["spec"]
    assert spec["names"]["shortNames"] == short
    shown = spec["versions"][-1]["additionalPrinterColumns"]
    assert " ".join(column["name"] for column in shown) == columns


def test_t2_topologies_belong_to_the_cluster() -> None:
    assert crd("ClusterTopology")["spec"]["scope"] == "Cluster"
    assert crd("PodCliqueSet")["spec"]["scope"] == "Namespaced"


def test_workloads_can_be_scaled() -> None:
    scale = version_of("PodCliqueScalingGroup", "v1alpha1")["subresources"]["scale"]
    assert scale["labelSelectorPath"] == ".status.selector"
    for kind in ("PodCliqueSet", "PodClique"):
        scale = version_of(kind, "v1alpha1")["subresources"]["scale"]
        assert scale["labelSelectorPath"] == ".status.hpaPodSelector"


def test_p9_removed_fields_are_declared_so_that_they_are_refused_and_not_pruned() -> None:
    spec = schema_of("PodCliqueSet", "v1alpha1")["properties"]["spec"]
    gang = schema_of("PodGang", "v1alpha1")["properties"]["spec"]
    for owner, name in (
        (spec, "replicaSpreadConstraints"),
        (spec["properties"]["template"], "schedulingPolicyConfig"),
        (gang, "spreadConstraints"),
    ):
        declared = owner["properties"][name]
        assert declared.get("items", declared)[OPAQUE]
        assert f"!has(self.{name})" in [rule["rule"] for rule in owner["x-kubernetes-validations"]]


MAIN: Json = {"name": "main", "image": "i", "env": [{"name": "A", "value": "b"}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [MAIN], "aFieldOfTomorrow": {"deep": [1]}, "tolerations": [{"operator": "Exists"}]}, ""),
        ({}, "containers"),
        ({"containers": "none"}, "containers"),
        ({"containers": [{"image": "i"}]}, "containers[0].name"),
        ({"containers": [{**MAIN, "resources": 4}]}, "containers[0].resources"),
        ({"containers": [MAIN], "initContainers": [7]}, "initContainers[0]"),
        ({"containers": [MAIN], "nodeSelector": {"gpu": True}}, "nodeSelector"),
        ({"containers": [MAIN], "schedulerName": {}}, "schedulerName"),
        ({"containers": [MAIN], "terminationGracePeriodSeconds": "soon"}, "terminationGracePeriodSeconds"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_b9_garbage_as_a_pod_is_refused_while_no_webhook_judges_it(spec: Json, field: str) -> None:
    """By the API server, in a PodClique and in a PodCliqueSet; what it does not know passes."""
    clique: Json = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": {"name": "c"}}
    template = {"cliques": [{"name": "c", "spec": {"podSpec": spec}}]}
    whole: Json = {**clique, "kind": "PodCliqueSet", "spec": {"replicas": 1, "template": template}}
    for obj in ({**clique, "spec": {"podSpec": spec}}, whole):
        shown = [str(each) for each in collection(obj["kind"], "v1alpha1")[0].validate(obj)]
        assert bool(shown) == bool(field), shown
        assert all(f"podSpec.{field}" in each for each in shown), shown


def test_without_a_converter_only_the_stored_version_is_served() -> None:
    """The server would relabel the other version and prune what it does not know."""
    spec = crd("DynamoGraphDeployment")["spec"]
    assert spec["conversion"] == {"strategy": "None"}
    assert {one["name"]: one["served"] for one in spec["versions"]} == {"v1alpha1": False, "v1beta1": True}


def test_with_a_converter_both_versions_are_served_and_the_older_one_warns() -> None:
    conversion = Conversion(ca_bundle="Y2E=", url="https://127.0.0.1:1/convert")
    spec = crd("DynamoGraphDeployment", conversion)["spec"]
    assert spec["conversion"]["webhook"] == {
        "clientConfig": {"url": "https://127.0.0.1:1/convert", "caBundle": "Y2E="},
        "conversionReviewVersions": ["v1"],
    }
    alpha, beta = spec["versions"]
    assert alpha["served"] and not alpha["storage"]
    assert alpha["deprecationWarning"].startswith("nvidia.com/v1alpha1 DynamoGraphDeployment is deprecated")
    assert beta["served"] and beta["storage"]


def test_a_converter_in_the_cluster_is_named_by_its_service() -> None:
    conversion = Conversion(ca_bundle="Y2E=", service_namespace="spinney", service_name="webhook")
    assert conversion.client_config()["service"] == {
        "namespace": "spinney",
        "name": "webhook",
        "path": "/convert",
        "port": 443,
    }


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(KeyError, match="no kind 'Pod'"):
        crd("Pod")


def test_a_field_without_words_or_bounds_is_our_bug() -> None:
    class Mute(Slim, frozen=True):
        name: str = ""

    with pytest.raises(SchemaError, match=r"Mute\.name: a field needs a description"):
        object_schema(Mute, "Mute")
