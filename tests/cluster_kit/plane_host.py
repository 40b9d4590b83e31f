"""The process that owns the real control plane of a test run: it ends when the last worker of the run is gone.

Run with one directory. Writes `state.json` there once the control plane is ready (or `error.txt`), and listens on
`socket`; every worker keeps one connection open for as long as it lives.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from pathlib import Path

from cluster_kit.users import USERS
from spinney.sim.kubernetes.assets import find_or_build_assets
from spinney.sim.kubernetes.control_plane import ControlPlane, Settings

FIRST_WORKER_S = 60.0
LAST_WORKER_S = 1.0


def publish(directory: Path, plane: ControlPlane) -> None:
    state = {
        "url": plane.url,
        "etcd": plane.etcd_url,
        "authority": str(plane.authority),
        "kubeconfig": str(plane.kubeconfig),
        "tokens": plane.tokens,
    }
    draft = directory / "state.json.draft"
    draft.write_text(json.dumps(state))
    draft.rename(directory / "state.json")


def serve_until_alone(listener: socket.socket) -> None:
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    workers = 0
    patience = time.monotonic() + FIRST_WORKER_S
    while workers or time.monotonic() < patience:
        for key, _ in waiting.select(timeout=0.2):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                waiting.register(connection, selectors.EVENT_READ)
                workers += 1
            else:
                waiting.unregister(key.fileobj)
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
                workers -= 1
                patience = time.monotonic() + LAST_WORKER_S


def main(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "socket"))
        listener.listen()
        try:
            plane = ControlPlane(Settings(find_or_build_assets(), directory / "plane", users=USERS))
            plane.start()
        except BaseException as error:
            (directory / "error.txt").write_text(str(error))
            raise
        try:
            publish(directory, plane)
            serve_until_alone(listener)
        finally:
            plane.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
