"""Where the programs of the real control plane come from."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path

import pytest

from spinney.sim.kubernetes.assets import (
    HELM_MODULE,
    HELM_VERSION,
    PROGRAMS,
    VERSION,
    AssetsUnavailable,
    Program,
    cache_directory,
    find_assets,
    find_or_build_assets,
    find_or_build_helm,
    find_or_build_node_programs,
    find_or_build_program,
)

GO = """#!/bin/sh
echo "$PWD $@" >> "$HOME/calls"
case "$1" in
  env) echo "GOVERSION_HERE" ;;
  build)
    [ -f go.mod ] && [ -f go.sum ] || exit 3
    env | grep -E '^(CGO|GO)' | sort > "$HOME/environment"
    echo "go: downloading something v1.0.0" >&2
    FAIL_HERE
    while [ "$1" != "-o" ]; do shift; done
    out="$2"; shift 2
    case "$out" in
      */) for each in "$@"; do echo built > "$out$(basename "$each")"; chmod +x "$out$(basename "$each")"; done ;;
      *) echo built > "$out"; chmod +x "$out" ;;
    esac ;;
esac
"""


def machine(tmp_path: Path, version: str = "go1.26.6", fail: str = "") -> dict[str, str]:
    """The environment of a machine whose Go is a script."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO.replace("GOVERSION_HERE", version).replace("FAIL_HERE", fail))
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{go.parent}:/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def quiet(line: str) -> None:
    pass


def programs(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in PROGRAMS:
        (directory / name).touch(mode=0o755)
    return directory


def test_a_chosen_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    chosen = programs(tmp_path / "chosen")
    found = find_or_build_assets({"KUBE_ASSETS": str(chosen), "HOME": str(tmp_path)}, quiet)
    assert (found.directory, found.kubectl) == (chosen, chosen / "kubectl")


def test_a_chosen_directory_that_lacks_a_program_is_refused_by_name(tmp_path: Path) -> None:
    chosen = programs(tmp_path / "chosen")
    (chosen / "etcd").unlink()
    with pytest.raises(AssetsUnavailable, match="etcd"):
        find_assets({"KUBE_ASSETS": str(chosen), "HOME": str(tmp_path)})


def test_an_empty_cache_holds_nothing(tmp_path: Path) -> None:
    assert find_assets({"HOME": str(tmp_path)}) is None


def test_the_cache_is_named_by_version_and_module_graph(tmp_path: Path) -> None:
    directory = cache_directory({"HOME": str(tmp_path)})
    assert directory.parent == tmp_path / ".cache" / "spinney" / "kube"
    assert directory.name.startswith(f"{VERSION}-")


def test_programs_are_built_once_into_the_cache(tmp_path: Path) -> None:
    environ = machine(tmp_path)
    first = find_or_build_assets(environ, quiet)
    calls = (tmp_path / "calls").read_text()
    assert sorted(path.name for path in first.directory.iterdir()) == sorted(PROGRAMS)
    assert find_or_build_assets(environ, quiet) == first
    assert (tmp_path / "calls").read_text() == calls


def test_a_build_is_static_pinned_and_stamped(tmp_path: Path) -> None:
    find_or_build_assets(machine(tmp_path), quiet)
    calls = (tmp_path / "calls").read_text()
    assert f"-X k8s.io/component-base/version.gitVersion={VERSION}" in calls
    assert calls.count("build -mod=readonly -trimpath -buildvcs=false") == 2
    environment = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().splitlines())
    assert (environment["CGO_ENABLED"], environment["GOTOOLCHAIN"]) == ("0", "local")
    assert "-modcacherw" in environment["GOFLAGS"]


def test_a_build_leaves_only_programs_behind(tmp_path: Path) -> None:
    found = find_or_build_assets(machine(tmp_path), quiet)
    left = {path.name for path in found.directory.parent.iterdir()}
    assert left == {found.directory.name, f"{found.directory.name}.lock"}


def test_a_module_cache_of_the_users_own_is_used(tmp_path: Path) -> None:
    find_or_build_assets({**machine(tmp_path), "GOMODCACHE": "/their/modules"}, quiet)
    assert "GOMODCACHE=/their/modules" in (tmp_path / "environment").read_text()


def test_a_failed_build_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    environ = machine(tmp_path, fail='echo "no space left"; exit 1')
    with pytest.raises(AssetsUnavailable, match="no space left"):
        find_or_build_assets(environ, quiet)
    assert not cache_directory(environ).exists()
    assert [path.suffix for path in cache_directory(environ).parent.iterdir()] == [".lock"]


def test_an_old_go_is_not_used_and_what_is_missing_is_said(tmp_path: Path) -> None:
    environ = {**machine(tmp_path, "go1.25.3"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    with pytest.raises(AssetsUnavailable, match=r"Go 1\.26 or newer is missing"):
        find_or_build_assets(environ, quiet)


def test_two_builders_build_once(tmp_path: Path) -> None:
    environ = machine(tmp_path)
    threads = [threading.Thread(target=find_or_build_assets, args=(environ, quiet)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "calls").read_text().count("go.etcd.io/etcd/server/v3") == 1


def test_progress_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    find_or_build_assets(machine(tmp_path), said.append)
    assert said[0].startswith(f"building Kubernetes {VERSION}")
    assert "  go build k8s.io/kubernetes/cmd/kube-apiserver" in said
    assert os.linesep not in "".join(said)


def test_helm_is_taken_from_the_cache_beside_the_control_plane(tmp_path: Path) -> None:
    """Under a key of its own: another helm does not build Kubernetes anew."""
    environ, said = {"XDG_CACHE_HOME": str(tmp_path)}, list[str]()
    digest = hashlib.sha256(b"".join((HELM_MODULE / name).read_bytes() for name in ("go.mod", "go.sum")))
    program = cache_directory(environ).parent / f"helm-{HELM_VERSION}-{digest.hexdigest()[:12]}" / "helm"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    assert find_or_build_helm(environ, said.append) == program
    assert said == []


def program_of(module: Path) -> Program:
    module.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (module / name).write_text(name)
    return Program("tool", "v1", module, ".", "-s -w", "a moment")


def test_a_program_is_built_once_for_all_that_do_not_change_it(tmp_path: Path) -> None:
    environ, program = machine(tmp_path), program_of(tmp_path / "module")
    found = find_or_build_program(program, environ, quiet)
    assert found.read_text() == "built\n"
    (program.module / "objects.yaml").write_text("read when it runs")
    assert find_or_build_program(program, environ, quiet) == found
    assert (tmp_path / "calls").read_text().count(" build ") == 1


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "main.go", "more.go"])
def test_a_program_is_built_again_when_its_module_or_sources_have_changed(tmp_path: Path, changed: str) -> None:
    environ, program = machine(tmp_path), program_of(tmp_path / "module")
    before = find_or_build_program(program, environ, quiet)
    (program.module / changed).write_text("changed")
    assert find_or_build_program(program, environ, quiet) != before
    assert (tmp_path / "calls").read_text().count(" build ") == 2


def test_the_programs_of_a_node_are_built_once_side_by_side(tmp_path: Path) -> None:
    environ = machine(tmp_path)
    found = find_or_build_node_programs(environ, quiet)
    assert {path.name for path in found.iterdir()} == {"cluster-dns", "kube-proxy", "kube-scheduler", "kubelet"}
    calls = (tmp_path / "calls").read_text()
    assert find_or_build_node_programs(environ, quiet) == found
    assert (tmp_path / "calls").read_text() == calls
