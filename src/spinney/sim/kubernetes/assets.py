"""The programs of a real control plane: taken from a directory, from the cache, or built into the cache once.

Never downloads a finished program: what runs is built from the Go modules pinned in go.mod and go.sum beside this file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spinney.sim.kubernetes.errors import AssetsUnavailable
from spinney.sim.kubernetes.go_build import build_programs

VERSION = "v1.36.3"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
MODULE = Path(__file__).parent

Say = Callable[[str], None]


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


def find_or_build_assets(environ: Mapping[str, str] = os.environ, say: Say = to_stderr) -> Assets:
    """The programs; the first caller on a machine builds them (minutes), the others wait for it."""
    found = find_assets(environ)
    if found is not None:
        return found
    target = cache_directory(environ)
    with _one_builder_at_a_time(target, say):
        if missing_programs(target):
            build_programs(MODULE, target, VERSION, dict(environ), say)
    return Assets(target)


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the programs are kept: one directory per Kubernetes version and module graph."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    root = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".cache")
    return Path(root) / "spinney" / "kube" / f"{VERSION}-{digest.hexdigest()[:12]}"


def missing_programs(directory: Path) -> list[str]:
    return [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]


def _from_chosen_directory(directory: Path) -> Assets:
    missing = missing_programs(directory)
    if missing:
        raise AssetsUnavailable(f"KUBE_ASSETS={directory}: expected executables {', '.join(missing)}, found none")
    return Assets(directory)


@contextmanager
def _one_builder_at_a_time(target: Path, say: Say) -> Iterator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{target}.lock", "w")  # noqa: SIM115 - closed below, after the lock is given up
    except OSError as error:
        raise AssetsUnavailable(f"{target.parent}: cannot keep built programs here: {error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that builds Kubernetes {VERSION}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
