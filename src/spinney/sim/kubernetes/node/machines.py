"""A machine in namespaces of this one: its processes, mounts, network and control groups are apart from ours.

Changes nothing outside but a control group directory of its own, which goes with it; what a killed owner left there is
removed when the next machine starts. Processes, mounts and interfaces end with the owner by themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from spinney.sim.kubernetes.assets import AssetsUnavailable, StartFailed
from spinney.sim.kubernetes.processes import Program

INIT = Path(__file__).with_name("init.py")
GROUPS = Path("/sys/fs/cgroup")
PREFIX = "spinney-node-"
_INHERITED = ("cpuset.cpus", "cpuset.mems")
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.02
_NEEDED = ("mount", "nsenter", "unshare", "ip", "nft", "containerd", "runc", "busybox")
_CNI = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_CNI_PLUGINS = ("bridge", "host-local", "portmap")
_UNSHARED = ("unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc")
_PACKAGES = "containerd runc containernetworking-plugins iproute2 nftables util-linux busybox-static"


def why_not(groups: Path = GROUPS) -> str:
    """Why no machine can run here, or nothing."""
    if sys.platform != "linux":
        return f"real nodes need Linux, found {sys.platform}"
    if os.geteuid() != 0:
        return f"real nodes need root for namespaces and mounts of their own, found user {os.geteuid()}"
    if missing := _missing():
        return f"real nodes need {', '.join(missing)}, not found; on Debian: apt-get install {_PACKAGES}"
    if not hierarchies(groups):
        return f"real nodes need control groups, found none that can be written below {groups}"
    tried = subprocess.run([*_UNSHARED, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"real nodes need namespaces of their own, which root cannot have here: {tried.stderr.strip()}"
    return ""


def _missing() -> list[str]:
    """Programs that are not on PATH, or cannot be used in a container."""
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    busybox = shutil.which("busybox")
    if busybox and b"/ld-linux" in Path(busybox).read_bytes():
        missing.append("a busybox that is linked statically")
    if not all((cni_directory() / name).exists() for name in _CNI_PLUGINS):
        missing.append(f"CNI plugins in {' or '.join(map(str, _CNI))}")
    return missing


def cni_directory() -> Path:
    return next((each for each in _CNI if each.is_dir()), _CNI[0])


def check() -> None:
    if reason := why_not():
        raise AssetsUnavailable(reason)


def hierarchies(groups: Path = GROUPS) -> list[Path]:
    """Where control groups are made: one place with version 2, one per controller with version 1."""
    found = [groups] if (groups / "cgroup.controllers").exists() else sorted(groups.glob("*/"))
    return [each for each in found if not each.is_symlink() and os.access(each, os.W_OK)]


class ControlGroup:
    """A directory in each hierarchy, named after the process that owns it."""

    def __init__(self, name: str, groups: Path = GROUPS) -> None:
        self.name = f"{PREFIX}{os.getpid()}-{name}"
        self._groups = groups

    def make(self) -> None:
        remove_left_over(self._groups)
        for hierarchy in hierarchies(self._groups):
            directory = hierarchy / self.name
            directory.mkdir(exist_ok=True)
            for setting in _INHERITED:
                if (hierarchy / setting).exists() and (directory / setting).exists():
                    (directory / setting).write_text((hierarchy / setting).read_text())

    def remove(self) -> None:
        """Waits for the kernel, which takes a moment to see that a killed process is gone."""
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for hierarchy in hierarchies(self._groups):
            while not _removed(hierarchy / self.name) and time.monotonic() < deadline:
                time.sleep(_POLL_S)


def remove_left_over(groups: Path = GROUPS) -> None:
    """Those of owners that are gone."""
    for hierarchy in hierarchies(groups):
        for directory in hierarchy.glob(f"{PREFIX}*-*"):
            owner = directory.name.removeprefix(PREFIX).split("-", 1)[0]
            if owner.isdigit() and not Path("/proc", owner).exists():
                _removed(directory)


def _removed(directory: Path) -> bool:
    try:
        for path, _, _ in os.walk(directory, topdown=False):
            os.rmdir(path)
    except OSError:
        return not directory.exists()
    return True


class Machine:
    """Between `start` and `stop`; its directory becomes /var inside."""

    def __init__(self, name: str, directory: Path) -> None:
        if directory.resolve().is_relative_to("/var") or directory.resolve().is_relative_to("/run"):
            raise StartFailed(f"{directory}: a machine hides /var and /run, expected a directory elsewhere")
        self.name = name
        self.directory = directory
        self.group = ControlGroup(name)
        self._init: Program | None = None
        self._programs: dict[str, Program] = {}

    @property
    def pid(self) -> int:
        """Of its first process, as it is called outside."""
        return int((self.directory / "pid").read_text())

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in ("pid", "ready"):
            (self.directory / name).unlink(missing_ok=True)
        self.group.make()
        words = [sys.executable, "-I", "-S", str(INIT), str(self.directory), self.name]
        self._init = Program(f"{self.name}/init", words, self.directory / "init.log")
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not (self.directory / "ready").exists():
            if self._init.ended() is not None or time.monotonic() > deadline:
                raise StartFailed(f"{self.name} got no namespaces of its own: {self._init.tail()}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End everything in it at once, as a power cut does."""
        if self._init is None:
            return
        self._init.stop()
        for program in self._programs.values():
            program.stop()
        self._init = None
        self.group.remove()

    def command(self, *words: str) -> list[str]:
        """The same command inside."""
        return ["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-u", "-i", "--", *words]

    def run(self, *words: str) -> str:
        """To its end; what it said on standard output."""
        return self._run(self.command(*words))

    def ip(self, *words: str) -> None:
        """In its network only: processes are named as they are called outside."""
        self._run(["nsenter", "-t", str(self.pid), "-n", "--", "ip", *words])

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StartFailed(f"{self.name}: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def launch(self, name: str, *words: str) -> None:
        """Start a program that runs as long as the machine, or again."""
        log = self.directory / f"{name}.log"
        self._programs[name] = Program(f"{self.name}/{name}", self.command(*words), log)

    def ended(self) -> str | None:
        """What ended by itself, with the end of its log."""
        running = [*self._programs.values(), *([self._init] if self._init else [])]
        ended = next((each for each in running if each.ended() is not None), None)
        return f"{ended.name} (the end of its log: {ended.tail()})" if ended else None
