"""Process 1 of a machine: makes the namespaces, then waits for processes that lost their parent.

Run by path with a directory and a host name. Writes `pid` there, as seen from outside, and `ready` when mounts are
done. What it mounts, names and configures is its own: nothing outside its namespaces changes, and everything inside
ends with it. It ends with its parent. Never imports anything beyond the standard library.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x04000000,
    0x08000000,
    0x20000000,
    0x40000000,
)
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
WHOLE_MACHINE = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
}
"""Settings that kubelet wants and that belong to no namespace: it is shown files that say so instead."""


def unshare() -> None:
    if LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def mount_all(directory: Path) -> None:
    """A /var, /run and /proc of its own; mounts inside are seen by containers, never outside."""
    mount("--make-rprivate", "/")
    mount("--make-rshared", "/")
    for name in ("lib", "log", "cache", "tmp"):
        (directory / "var" / name).mkdir(parents=True, exist_ok=True)
    run = directory / "var" / "run"
    if not run.is_symlink():
        run.symlink_to("/run")
    mount("-t", "proc", "proc", "/proc")
    for setting, value in WHOLE_MACHINE.items():
        shown = directory / setting.replace("/", ".")
        shown.write_text(f"{value}\n")
        mount("--bind", str(shown), f"/proc/sys/{setting}")
    mount("--bind", str(directory / "var"), "/var")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")


def reap_for_ever() -> None:
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            signal.pause()


def main(directory: Path, hostname: str) -> int:
    unshare()
    child = os.fork()
    if child:
        (directory / "pid").write_text(str(child))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    socket.sethostname(hostname)
    mount_all(directory)
    (directory / "ready").touch()
    reap_for_ever()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
