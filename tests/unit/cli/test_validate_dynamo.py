"""`spinney validate` takes DynamoGraphDeployments in every form, and speaks the words of the one it was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from spinney.cli.main import cli

LEVELS = [{"domain": domain, "key": f"example.com/{domain}"} for domain in ("zone", "block", "rack")]
CONFIGURATION = {
    "scheduler": {"profiles": [{"name": "kai-scheduler", "default": True}]},
    "topologyAwareScheduling": {
        "enabled": True,
        "levels": [*LEVELS, {"domain": "host", "key": "kubernetes.io/hostname"}],
    },
}
EXAMPLES = Path(__file__).parents[3] / "examples" / "dynamo"


def validated(tmp_path: Path, text: str) -> tuple[int, str]:
    found = tmp_path / "graph.yaml"
    found.write_text(text)
    config = tmp_path / "operator.yaml"
    config.write_text(yaml.safe_dump(CONFIGURATION))
    done = CliRunner().invoke(cli, ["validate", "-f", str(found), "--config", str(config)])
    return done.exit_code, done.output


def converted(tmp_path: Path, text: str, version: str) -> str:
    found = tmp_path / "listed.yaml"
    found.write_text(text)
    done = CliRunner().invoke(cli, ["convert", "-f", str(found), "--to", version])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("form", ["list", "v1alpha1", "v1beta1"])
def test_d12_every_form_is_judged_in_its_own_words(tmp_path: Path, form: str) -> None:
    listed = (EXAMPLES / "document" / "mixed.yaml").read_text()
    text = listed if form == "list" else converted(tmp_path, listed, form)
    assert validated(tmp_path, text)[0] == 0
    wrong = yaml.safe_load(text.replace("packDomain: zone", "packDomain: host"))
    status, said = validated(tmp_path, yaml.safe_dump(wrong))
    assert status == 1
    place = "spec.services[VllmWorker]" if form == "v1alpha1" else "spec.components[0]"
    assert f"{place}.topologyConstraint.packDomain" in said.replace("\n", "")


@pytest.mark.parametrize(
    ("wrong", "paths"),
    [
        ({"topologyConstraint": {"packDomain": "superpod"}}, ["spec.topologyConstraint.packDomain"]),
        ({"restart": {"id": "a"}}, ["spec"]),
        ({"components": [{"minAvailable": 2}]}, ["spec.components[0]"]),
    ],
    ids=["an unknown domain", "a restart", "a minimum above the number"],
)
def test_no_error_is_told_twice(tmp_path: Path, wrong: dict[str, Any], paths: list[str]) -> None:
    pods = {"spec": {"containers": [{"name": "main", "image": "work:1"}]}}
    component = {"name": "w", "podTemplate": pods, **wrong.get("components", [{}])[0]}
    graph = {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "graph"}}
    status, said = validated(tmp_path, yaml.safe_dump({**graph, "spec": {**wrong, "components": [component]}}))
    assert (status, [line.split(": ")[0].strip() for line in said.splitlines()[1:]]) == (1, paths)


def test_a_configuration_that_is_no_text_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"a: \xff")
    done = CliRunner().invoke(cli, ["validate", "-f", str(EXAMPLES), "--config", str(tmp_path / "config")])
    said = f"spinney validate: --config {tmp_path}/config: is not UTF-8 text: invalid start byte at byte 3\n"
    assert (done.exit_code, done.output) == (2, said)


@pytest.mark.parametrize("recipe", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_allowed_in_both_versions(tmp_path: Path, recipe: Path) -> None:
    for version in ("v1beta1", "v1alpha1"):
        status, said = validated(tmp_path, converted(tmp_path, recipe.read_text(), version))
        assert status == 0, said


def test_a_file_without_any_deployment_is_not_converted(tmp_path: Path) -> None:
    found = tmp_path / "job.yaml"
    found.write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n")
    done = CliRunner().invoke(cli, ["convert", "-f", str(found)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "found no DynamoGraphDeployment" in done.stderr


def test_the_examples_are_valid_without_any_option() -> None:
    done = CliRunner().invoke(cli, ["validate", "-f", str(EXAMPLES)])
    assert done.exit_code == 0, done.output
    assert "refused" not in done.output
