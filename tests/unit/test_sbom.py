"""The bill of materials of the image: everything that is installed, by version and hash."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tools.sbom import bill, installed_in

LOCK = (Path(__file__).resolve().parents[2] / "uv.lock").read_text()
LOCKED = {each["name"]: each["version"] for each in tomllib.loads(LOCK)["package"]}


def site(directory: Path, **versions: str) -> dict[str, str]:
    """What is found in a directory into which these were installed."""
    for name, version in versions.items():
        (directory / f"{name}-{version}.dist-info").mkdir()
        (directory / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    return installed_in(str(directory))


def test_b9_the_bill_of_materials_names_what_is_installed_with_every_hash(tmp_path: Path) -> None:
    here = site(
        tmp_path, spinney=LOCKED["spinney"], PyYAML=LOCKED["pyyaml"], prometheus_client=LOCKED["prometheus-client"]
    )
    found = bill(LOCK, here)
    assert found["metadata"]["component"]["name"] == "spinney"
    assert [each["name"] for each in found["components"]] == ["prometheus-client", "pyyaml"]
    for each in found["components"]:
        assert each["purl"] == f"pkg:pypi/{each['name']}@{LOCKED[each['name']]}"
        hashes = [one for file in each["externalReferences"] for one in file["hashes"]]
        assert {(one["alg"], len(one["content"])) for one in hashes} == {("SHA-256", 64)}


def test_b9_what_nobody_locked_makes_no_image(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"found pyyaml 0\.1, which uv\.lock has not"):
        bill(LOCK, site(tmp_path, spinney=LOCKED["spinney"], PyYAML="0.1"))
