"""`spinney validate`: files in, verdicts out, and an exit status that scripts can rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from spinney.cli.main import cli
from unit.admission.admission_kit import Json, clique, pack, pcs, topology

GOLDEN = Path(__file__).parents[2] / "golden" / "crd_samples.yaml"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def file(name: str, *documents: Json) -> str:
        path = tmp_path / name
        path.write_text(yaml.safe_dump_all(documents))
        return str(path)

    return file


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["validate", *arguments], input=text)


def test_a_good_manifest_is_allowed(write: Any) -> None:
    done = run("-f", write("w.yaml", pcs(constraint=pack("rack"))), "--topology", write("t.yaml", topology("rack")))
    assert (done.exit_code, done.output.split("(")[0]) == (0, "allowed  PodCliqueSet ns/p ")


def test_every_error_is_printed_with_object_field_and_what_was_found(write: Any) -> None:
    bad = pcs(clique(minAvailable=3), constraint=pack("rack"))
    done = run("-f", write("w.yaml", bad), "--topology", write("t.yaml", topology("zone", "host")))
    assert done.exit_code == 1
    first, *lines = done.output.splitlines()
    assert first.startswith("refused  PodCliqueSet ns/p (")
    assert lines == [
        "  spec.template.cliques[0].spec.minAvailable: Invalid value: 3: "
        "minAvailable must not be greater than replicas, which is 2",
        '  spec.template.topologyConstraint.packDomain: Invalid value: "rack": '
        "topology domain 'rack' does not exist in cluster topology [zone host]",
    ]


def test_schema_errors_and_unknown_fields_are_told_together_with_the_rules(write: Any) -> None:
    bad = pcs(clique(pod={"nodeName": "n"}), constraint=pack("shelf"), colour="red")
    done = run("-f", write("w.yaml", bad))
    assert done.exit_code == 1
    assert "spec.template.colour: Forbidden: unknown field" in done.output
    assert 'spec.template.topologyConstraint.packDomain: Unsupported value: "shelf"' in done.output
    assert "podSpec.nodeName" in done.output


def test_types_that_are_wrong_are_told_once(write: Any) -> None:
    done = run("-f", write("w.yaml", pcs() | {"spec": {"replicas": "many", "template": {"cliques": []}}}))
    assert "spec.replicas in body must be of type integer" in done.output
    assert "Expected `int`" not in done.output


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_the_same_as_data(output: str, write: Any) -> None:
    done = run("-f", write("w.yaml", pcs(terminationDelay="0s"), topology("zone")), "-o", output)
    assert done.exit_code == 1
    first, second = json.loads(done.output) if output == "json" else yaml.safe_load(done.output)
    assert (first["object"], first["verdict"]) == ("PodCliqueSet ns/p", "refused")
    assert first["errors"] == [
        {
            "field": "spec.template.terminationDelay",
            "reason": "FieldValueInvalid",
            "detail": "must be greater than 0",
            "message": 'spec.template.terminationDelay: Invalid value: "0s": must be greater than 0',
            "found": "0s",
        }
    ]
    assert (second["verdict"], len(second["warnings"])) == ("allowed", 1)


def test_standard_input_may_have_many_documents_and_topologies_count_for_what_follows() -> None:
    text = yaml.safe_dump_all(
        [topology("zone", "rack", name="h100"), pcs(constraint=pack("rack"), clusterTopologyName="h100")]
    )
    assert run("-f", "-", text=text).exit_code == 0


def test_an_object_that_comes_again_is_judged_as_a_change(write: Any) -> None:
    both = pcs(constraint=pack("rack")), pcs(constraint=pack("host"))
    done = run("-f", write("w.yaml", *both), "--topology", write("t.yaml", topology("rack", "host")))
    assert done.exit_code == 1
    assert "topology constraint cannot be changed" in done.output


CONFIG = {
    "topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "rack", "key": "example.com/rack"}]},
    "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
}


def test_c1_the_configuration_brings_its_default_topology(write: Any) -> None:
    config = write("c.yaml", CONFIG)
    assert run("-f", write("w.yaml", pcs(constraint=pack("rack"))), "--config", config).exit_code == 0
    assert run("-f", write("w.yaml", pcs(constraint=pack("zone"))), "--config", config).exit_code == 1


def test_p6_with_topology_off_in_the_configuration_constraints_are_refused(write: Any) -> None:
    done = run("-f", write("w.yaml", pcs(constraint=pack("rack"))), "--config", write("c.yaml", {"logLevel": "info"}))
    assert done.exit_code == 1
    assert "topology support is not enabled in the operator" in done.output


def test_other_kinds_are_skipped(write: Any) -> None:
    done = run("-f", write("w.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}))
    assert (done.exit_code, done.output.split("(")[0]) == (0, "skipped  ConfigMap c ")


USAGE: dict[str, list[str]] = {
    "no manifest": [],
    "a file that is not there": ["-f", "/nowhere/at/all.yaml"],
    "an unknown output": ["-f", "-", "-o", "xml"],
    "two sources of topologies": ["-f", "-", "--topology", "a", "--kubeconfig", "b"],
    "a kubeconfig that is not there": ["-f", "-", "--kubeconfig", "/nowhere/at/all"],
    "a configuration that is not there": ["-f", "-", "--config", "/nowhere/at/all"],
}


@pytest.mark.parametrize("row", USAGE)
def test_usage_errors_are_told_apart(row: str) -> None:
    assert run(*USAGE[row], text="").exit_code == 2


def test_c2_a_bad_configuration_is_told_by_its_field(write: Any) -> None:
    levels = [{"domain": "shelf", "key": "a"}]
    bad = {"topologyAwareScheduling": {"enabled": True, "levels": levels}}
    done = run("-f", "-", "--config", write("c.yaml", bad), text="")
    assert done.exit_code == 2
    assert "topologyAwareScheduling.levels[0].domain: Invalid value" in done.output


def test_a_topology_file_must_hold_topologies_that_could_be(write: Any) -> None:
    assert run("-f", "-", "--topology", write("t.yaml", pcs()), text="").exit_code == 2
    assert run("-f", "-", "--topology", write("t.yaml", topology()), text="").exit_code == 2


def test_text_that_is_no_manifest_is_a_usage_error() -> None:
    assert run("-f", "-", text="{").exit_code == 2
    assert run("-f", "-", text="5").exit_code == 2


def test_metadata_of_a_wrong_type_is_refused() -> None:
    done = run("-f", "-", text=yaml.safe_dump(pcs(labels={"a": 5})))
    assert done.exit_code == 1
    assert "metadata: Invalid value" in done.output


@pytest.mark.parametrize(
    "sample", [one for one in yaml.safe_load(GOLDEN.read_text()) if "refused" in one], ids=lambda one: one["name"]
)
def test_what_the_schema_refuses_is_refused_here_with_the_same_words(sample: Json) -> None:
    done = run("-f", "-", text=yaml.safe_dump(sample["object"]))
    assert done.exit_code == 1
    for text in sample["refused"]:
        assert text in done.output
