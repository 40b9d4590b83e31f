"""A process between us and a program we start: the program ends when we end, however we end.

Run by path with one program and its arguments. Reads standard input until it closes (its owner stopped, or was killed),
then asks the program to end and after a grace period makes it end. Never imports anything beyond the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading

GRACE_S = 10
PR_SET_PDEATHSIG = 1


def die_with_keeper() -> None:
    """On Linux the program is killed even when the keeper itself is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for_owner() -> None:
    while os.read(0, 4096):
        pass


def stop(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        program.kill()


def stop_when_owner_is_gone(program: subprocess.Popen[bytes]) -> None:
    wait_for_owner()
    stop(program)


def main(arguments: list[str]) -> int:
    program = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, preexec_fn=die_with_keeper)
    threading.Thread(target=stop_when_owner_is_gone, args=(program,), daemon=True).start()
    return program.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
