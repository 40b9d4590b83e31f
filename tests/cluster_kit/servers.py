"""Starting, or attaching to, the two servers."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3

from cluster_kit.server import Server
from cluster_kit.shared_plane import attached
from spinney.sim.kubernetes.assets import AssetsUnavailable, find_assets

TESTS = Path(__file__).parent.parent
SERVERS = ("embedded", pytest.param("real", marks=pytest.mark.real))
"""Parameters of what is tried on both."""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubectl_program() -> Path | None:
    """The kubectl of the real control plane, else whatever is installed."""
    try:
        assets = find_assets()
    except AssetsUnavailable:
        assets = None
    installed = shutil.which("kubectl")
    return assets.kubectl if assets else Path(installed) if installed else None


@contextmanager
def real_server(shared: Path, scratch: Path) -> Iterator[Server]:
    with attached(shared) as state:

        def compact(revision: int) -> None:
            """As another kube-apiserver would do it: the key tells ours to forget its snapshots too."""
            mark = {"key": encoded("compact_rev_key"), "value": encoded(str(revision))}
            for path, body in (("put", mark), ("compaction", {"revision": revision, "physical": True})):
                answer = urllib3.request("POST", f"{state['etcd']}/v3/kv/{path}", body=json.dumps(body))
                assert answer.status == 200, answer.data

        server = Server(
            kind="real",
            url=state["url"],
            kubeconfig=Path(state["kubeconfig"]),
            authority=Path(state["authority"]),
            tokens=state["tokens"],
            kubectl_program=kubectl_program(),
            scratch=scratch,
            expire_history=compact,
        )
        try:
            yield server
        finally:
            server.close()


def start_host(scratch: Path) -> subprocess.Popen[str]:
    """The process of the embedded server; its log is in the directory."""
    with (scratch / "server.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "cluster_kit.embedded_host", str(scratch)],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
        )


@contextmanager
def embedded_server(scratch: Path) -> Iterator[Server]:
    with start_host(scratch) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        orders, answers = host.stdin, host.stdout
        line = answers.readline()
        assert line, f"the embedded server did not start:\n{(scratch / 'server.log').read_text()[-4000:]}"
        state = json.loads(line)

        def forget(revision: int) -> None:
            orders.write(f"forget {revision}\n")
            assert answers.readline() == "done\n"

        server = Server(
            kind="embedded",
            url=state["url"],
            kubeconfig=Path(state["kubeconfig"]),
            authority=Path(state["authority"]),
            tokens=state["tokens"],
            kubectl_program=kubectl_program(),
            scratch=scratch,
            expire_history=forget,
        )
        try:
            yield server
        finally:
            server.close()
            orders.close()
            host.wait(20)
