"""The image of the roles, built from `deploy/Containerfile` without a registry, on Debian instead of Docker's Python.

What does not change is kept in the cache of the control plane: Debian's base, and the layer of what Spinney depends on.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from cluster_kit.real_programs import NO_NODE, found
from spinney.sim.kubernetes.assets import AssetsUnavailable, cache_directory

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY, TAG = "localhost/spinney", "test"
_SUITE = "bookworm"
_PACKAGES = "ca-certificates,python3,python3-venv,python3-pip,python-is-python3"
_PRUNED = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")
_PRUNED_FILES = ("usr/lib/python3.11/EXTERNALLY-MANAGED",)
_BASE = hashlib.sha256(f"{_SUITE} {_PACKAGES} {_PRUNED} {_PRUNED_FILES}".encode()).hexdigest()[:12]
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def built_image(target: Path) -> None:
    """Write the archive; where that cannot be done, the test is skipped, and fails in CI."""
    found(lambda: build_image(target), f"{NO_NODE} with our image")


def build_image(target: Path) -> None:
    """Write the archive; one process of a machine builds at a time."""
    cache = cache_directory().parent.parent / "images"
    if missing := [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]:
        raise AssetsUnavailable(
            f"{' and '.join(missing)} not found on PATH; on Debian: apt-get install {' '.join(missing)}"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        base = f"localhost/python:{_BASE}"
        if not _buildah(cache, "images", "--quiet", "--filter", f"reference={base}").strip():
            _build_base(cache, base)
        _build(cache, base)
        _buildah(cache, "push", f"{REPOSITORY}:{TAG}", f"docker-archive:{target}:{REPOSITORY}:{TAG}")


def _build_base(cache: Path, name: str) -> None:
    context = cache / "base"
    shutil.rmtree(context, ignore_errors=True)
    system = context / "system"
    context.mkdir()
    _run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(system))
    for each in _PRUNED:
        shutil.rmtree(system / each)
    for each in _PRUNED_FILES:  # it keeps `pip install` of the Containerfile away from Debian's own Python
        (system / each).unlink()
    _run("tar", "--numeric-owner", "-C", str(system), "-cf", str(context / "base.tar"), ".")
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    (context / "Containerfile").write_text(f"FROM scratch\nADD base.tar /\nENV PATH={path}\n")
    shutil.rmtree(system)
    _buildah(cache, "bud", "--isolation=chroot", "-t", name, str(context))
    shutil.rmtree(context)


def _build(cache: Path, base: str) -> None:
    """The first stage under a name of its own, so that its layers stay when what nobody names is removed."""
    trust = cache / "uv"
    trust.mkdir(exist_ok=True)
    (trust / "uv.toml").write_text("native-tls = true\n")
    words = (
        *("bud", "--layers", "--isolation=chroot", "--network=host", "--pull-never"),
        *("-v", f"{_CERTIFICATES}:{_CERTIFICATES}:ro", "-v", f"{trust}:/etc/uv:ro"),
        *("--build-arg", f"PYTHON={base}", "-f", str(ROOT / "deploy" / "Containerfile")),
    )
    _buildah(cache, *words, "--target=build", "-t", "localhost/spinney-build:test", str(ROOT))
    _buildah(cache, *words, "-t", f"{REPOSITORY}:{TAG}", str(ROOT))
    _buildah(cache, "rmi", "--prune")


def _buildah(cache: Path, *words: str) -> str:
    stored = ("--root", str(cache / "storage"), "--runroot", str(cache / "run"), "--storage-driver=overlay")
    return _run("buildah", *stored, *words)


def _run(*words: str) -> str:
    environ = os.environ | {"BUILDAH_HISTORY": "false"}
    done = subprocess.run(["nice", *words], env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssetsUnavailable(f"{' '.join(words)}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout
