"""What `spinney up` was asked for, and what can be wrong with it before anything starts."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spinney.api.documents import DocumentError, read_bounded, read_document
from spinney.whatif.inputs.operator_settings import ConfigurationError

OURS = ("spinney", "spinney-real")
"""Names of the clusters in kubeconfigs that we write."""


@dataclass(frozen=True, slots=True)
class StackOptions:
    nodes_file: Path | None
    kubeconfig: Path
    host: str
    port: int
    data_dir: Path | None
    real: bool
    manifests: tuple[Path, ...]
    config: Path | None = None
    dashboard_port: int | None = None

    def check(self) -> None:
        if self.real and self.host not in ("127.0.0.1", "localhost"):
            raise ConfigurationError(f"--real listens on loopback only, found --host {self.host}")
        _check_kubeconfig(self.kubeconfig)


def _check_kubeconfig(path: Path) -> None:
    """It can be written, and nothing of somebody else's is lost by it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "rb") as file:
            content = read_bounded(file)
    except DocumentError:
        raise _somebody_elses(path) from None
    except OSError as error:
        raise ConfigurationError(f"--kubeconfig {path}: cannot be written: {error.strerror}") from error
    if content.strip() and not _is_ours(content):
        raise _somebody_elses(path)


def _somebody_elses(path: Path) -> ConfigurationError:
    return ConfigurationError(f"--kubeconfig {path}: holds something else and would be overwritten; name another file")


def _is_ours(content: bytes) -> bool:
    with contextlib.suppress(DocumentError, KeyError, TypeError):
        return all(cluster["name"] in OURS for cluster in read_document(content)["clusters"])
    return False


@contextlib.contextmanager
def only_user_of(data_dir: Path | None) -> Iterator[None]:
    """Hold the data directory, so that no second stack writes into it."""
    if data_dir is None:
        yield
        return
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = open(data_dir / "lock", "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigurationError(f"--data-dir {data_dir}: cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"--data-dir {data_dir}: another process is using it") from None
        yield
