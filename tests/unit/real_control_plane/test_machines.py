"""Where a machine can run, its control groups, and images without a registry; nothing is started here."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

from spinney.sim.kubernetes.assets import AssetsUnavailable, StartFailed
from spinney.sim.kubernetes.node import machines
from spinney.sim.kubernetes.node.cluster import find_or_build_programs
from spinney.sim.kubernetes.node.images import write_busybox
from spinney.sim.kubernetes.node.machines import PREFIX, ControlGroup, Machine, hierarchies, remove_left_over, why_not

NOBODY = 4_194_304
"""A process that cannot be: one more than the most that Linux counts to."""


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """Two hierarchies of version 1."""
    found = tmp_path / "groups"
    for name in ("cpuset", "memory"):
        (found / name).mkdir(parents=True)
    (found / "both").symlink_to(found / "memory")
    return found


def test_without_root_it_says_so_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(AssetsUnavailable, match=r"real nodes need root .* found user 1000"):
        find_or_build_programs()


@pytest.fixture
def furnished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with all that is needed on PATH, and CNI plugins; what is not there is taken away."""
    for name in (*machines._NEEDED, *machines._CNI_PLUGINS):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machines, "_CNI", (tmp_path,))
    return tmp_path


def test_a_machine_with_everything_is_good_enough(furnished: Path, groups: Path) -> None:
    assert why_not(groups) == ""


def test_missing_programs_are_named_with_their_packages(furnished: Path, groups: Path) -> None:
    for name in ("nft", "runc", "portmap"):
        (furnished / name).unlink()
    said = f"real nodes need nft, runc, CNI plugins in {furnished}, not found; on Debian: apt-get install containerd"
    assert why_not(groups).startswith(said)


def test_a_busybox_that_needs_libraries_is_of_no_use(furnished: Path, groups: Path) -> None:
    (furnished / "busybox").write_bytes(b"\x7fELF /lib64/ld-linux-x86-64.so.2")
    assert "a busybox that is linked statically" in why_not(groups)


def test_no_control_groups_are_said(furnished: Path) -> None:
    empty = furnished / "no-groups"
    empty.mkdir()
    assert "found none that can be written" in why_not(empty)


def test_root_that_may_not_make_namespaces_is_told_why(furnished: Path, groups: Path) -> None:
    (furnished / "unshare").write_text("#!/bin/sh\necho unshare failed: Operation not permitted >&2\nexit 1\n")
    assert why_not(groups).endswith("root cannot have here: unshare failed: Operation not permitted")


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
