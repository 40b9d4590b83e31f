"""The pages as `spinney up` and `spinney run dashboard` serve them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from cluster_kit.server import eventually
from stack_kit.spinney import SPINNEY, Spinney

Up = Callable[..., Spinney]
WITHIN_S = 120.0


def test_b5_ready_tells_where_the_pages_are(up: Up) -> None:
    first, second = up("--dashboard-port", "0").ready(), up().ready()
    for stack in (first, second):
        answer = httpx.get(f"{stack.pages}/", timeout=WITHIN_S)
        assert answer.status_code == 200
        assert "of 128 used" in answer.text
    assert first.pages != second.pages
    assert first.stop()[0] == 0


def test_k15_the_figures_of_the_scheduler_are_beside_the_pages(up: Up) -> None:
    stack = up("--dashboard-port", "0").ready()
    answer = httpx.get(f"{stack.pages}/metrics", timeout=WITHIN_S)
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'kai_topology_free{level="topology.kubernetes.io/zone"' in answer.text


def test_b5_a_port_of_the_pages_that_is_taken_is_named(up: Up) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, said = up("--dashboard-port", str(port)).refused()
    assert status == 3
    assert said.strip().endswith(f"cannot listen on 127.0.0.1:{port}: Address already in use")


def test_b5_pages_for_others_ask_for_the_token_that_was_shown_once(up: Up) -> None:
    stack = up("--host", "0.0.0.0", "--dashboard-port", "0").ready()
    shown = httpx.URL(stack.pages)
    (line,) = (line.split() for line in stack.stdout.splitlines() if line.split()[:1] == ["pages"])
    assert (shown.scheme, shown.query, line[2]) == ("https", b"", "token")
    token = line[3]
    assert len(token) >= 32
    site = f"https://127.0.0.1:{shown.port}"
    assert httpx.get(site, timeout=WITHIN_S, verify=False).status_code == 401
    with httpx.Client(follow_redirects=True, timeout=WITHIN_S, verify=False) as client:
        assert client.get(site, params={"token": token}).status_code == 200
        assert client.get(f"{site}/gangs").status_code == 200


def test_b5_pages_over_any_cluster(up: Up, tmp_path: Path) -> None:
    stack = up("--dashboard-port", "0").ready()
    token = "a token that was agreed on"
    (tmp_path / "token").write_text(token)
    (tmp_path / "config").write_text("{server: {healthProbes: {port: 0}, metrics: {port: 0}}}")
    arguments = [
        "--kubeconfig",
        str(stack.kubeconfig),
        "--address",
        "127.0.0.1:0",
        "--config",
        str(tmp_path / "config"),
    ]
    with started(tmp_path, *arguments, "--token-file", str(tmp_path / "token")) as site:
        assert token not in site
        assert httpx.get(site, timeout=WITHIN_S).status_code == 401
        answer = httpx.get(site, headers={"authorization": f"Bearer {token}"}, timeout=WITHIN_S)
        assert "of 128 used" in answer.text


def test_b5_what_is_wrong_with_the_options_is_said(tmp_path: Path) -> None:
    for arguments in (("--address", "nowhere"), ("--token-file", str(tmp_path / "none"), "--address", "127.0.0.1:0")):
        done = subprocess.run(
            [*SPINNEY, "run", "dashboard", "--kubeconfig", str(_kubeconfig(tmp_path)), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"spinney run dashboard: {arguments[0]}")
        assert done.stderr.count("\n") == 1


def _kubeconfig(directory: Path) -> Path:
    """A cluster that nobody serves."""
    path = directory / "nobody"
    cluster = "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]"
    context = "contexts: [{name: c, context: {cluster: c, user: u}}]"
    path.write_text(
        f"{{apiVersion: v1, kind: Config, current-context: c, {cluster}, {context}, users: [{{name: u, user: {{}}}}]}}"
    )
    return path


@contextmanager
def started(directory: Path, *arguments: str) -> Iterator[str]:
    """A process of the role; gives the address that it tells."""
    said = directory / "stdout"
    with said.open("w") as out:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen([*SPINNEY, "run", "dashboard", *arguments], stdout=out, env=environment)
    try:
        eventually(lambda: "pages" in said.read_text() or process.poll() is not None, "it is served", WITHIN_S)
        yield said.read_text().split()[1]
    finally:
        process.terminate()
        assert process.wait(WITHIN_S) == 0
