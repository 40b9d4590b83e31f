"""The PriorityClasses that are shipped."""

from __future__ import annotations

from click.testing import CliRunner

from spinney.api.priority_classes import priority_classes
from spinney.cli.main import cli


def test_b4_the_classes_of_upstream_are_there_with_their_values() -> None:
    assert {each["metadata"]["name"]: each["value"] for each in priority_classes()} == {
        "train": 50,
        "build-preemptible": 75,
        "build": 100,
        "inference": 125,
    }


def test_b4_they_are_among_all_manifests() -> None:
    printed = CliRunner().invoke(cli, ["manifests", "all"])
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.count("kind: PriorityClass\n") == 4
