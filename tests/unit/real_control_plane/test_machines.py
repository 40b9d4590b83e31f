"""Where a machine can run, its control groups, and images without a registry; nothing is started here."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from spinney.sim.kubernetes.assets import AssetsUnavailable, StartFailed
from spinney.sim.kubernetes.node.cluster import find_or_build_programs
from spinney.sim.kubernetes.node.images import write_busybox
from spinney.sim.kubernetes.node.machines import PREFIX, ControlGroup, Machine, hierarchies, remove_left_over, why_not

NOBODY = 4_194_304
"""A process that cannot be: one more than the most that Linux counts to."""


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """Two hierarchies of version 1."""
    for name in ("cpuset", "memory"):
        (tmp_path / name).mkdir()
    (tmp_path / "both").symlink_to(tmp_path / "memory")
    return tmp_path


def test_without_root_it_says_so_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AssetsUnavailable, match=r"real nodes need root .* found user 1000"):
        find_or_build_programs()


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, groups: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("runc", "nft") else f"/bin/{name}")
    assert "nft, runc, not found on PATH; on Debian: apt-get install containerd" in why_not(groups)


def test_no_control_groups_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert "found none that can be written" in why_not(tmp_path)


def test_version_2_has_one_hierarchy_and_version_1_one_for_each_controller(groups: Path) -> None:
    assert [path.name for path in hierarchies(groups)] == ["cpuset", "memory"]
    (groups / "cgroup.controllers").touch()
    assert hierarchies(groups) == [groups]


def test_a_control_group_is_made_everywhere_and_removed_with_what_containers_made_in_it(groups: Path) -> None:
    group = ControlGroup("node", groups)
    group.make()
    assert group.name == f"{PREFIX}{os.getpid()}-node"
    for name in ("cpuset", "memory"):
        (groups / name / group.name / "kubepods" / "pod1").mkdir(parents=True)
    group.remove()
    assert [each for name in ("cpuset", "memory") for each in (groups / name).iterdir()] == []


def test_what_a_killed_owner_left_is_removed_and_that_of_a_living_one_stays(groups: Path) -> None:
    for owner in (NOBODY, os.getpid()):
        (groups / "memory" / f"{PREFIX}{owner}-node" / "kubepods").mkdir(parents=True)
    (groups / "memory" / "spinney-node-of-somebody-else").mkdir()
    remove_left_over(groups)
    left = {path.name for path in (groups / "memory").iterdir()}
    assert left == {f"{PREFIX}{os.getpid()}-node", "spinney-node-of-somebody-else"}


def test_a_directory_that_a_machine_would_hide_from_itself_is_refused() -> None:
    with pytest.raises(StartFailed, match="/var/tmp/x: a machine hides /var and /run, expected a directory elsewhere"):
        Machine("node", Path("/var/tmp/x"))


def test_an_image_holds_what_its_index_names_by_digest(tmp_path: Path) -> None:
    program = tmp_path / "busybox"
    program.write_bytes(b"a program")
    write_busybox(tmp_path / "image.tar", program, ("localhost/a:1", "localhost/b:1"))
    with tarfile.open(tmp_path / "image.tar") as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    named = json.loads(files["index.json"])["manifests"]
    assert [each["annotations"]["io.containerd.image.name"] for each in named] == ["localhost/a:1", "localhost/b:1"]
    manifest = json.loads(files[f"blobs/{named[0]['digest'].replace(':', '/')}"])
    for part in (named[0], manifest["config"], *manifest["layers"]):
        blob = files[f"blobs/{part['digest'].replace(':', '/')}"]
        assert (part["digest"], part["size"]) == (f"sha256:{hashlib.sha256(blob).hexdigest()}", len(blob))
