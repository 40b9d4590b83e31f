"""Programs end with their owner, and say why they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spinney.sim.kubernetes import processes
from spinney.sim.kubernetes.control_plane import write_certificates, write_kubeconfig
from spinney.sim.kubernetes.processes import Program, free_ports

OWNER = """
import sys, time
from pathlib import Path
from spinney.sim.kubernetes.processes import Program
Program("sleeper", ["/bin/sh", "-c", "echo $$ > pid; exec sleep 60"], Path("log"))
time.sleep(60)
"""


def pid_in(directory: Path) -> int:
    path = directory / "pid"
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def is_gone_soon(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_program_is_stopped(tmp_path: Path) -> None:
    program = Program("sleeper", ["/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], tmp_path / "log")
    pid = pid_in(tmp_path)
    assert program.ended() is None
    program.stop()
    program.stop()
    assert not is_alive(pid)


def test_a_program_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], cwd=tmp_path) as owner:
        pid = pid_in(tmp_path)
        owner.send_signal(signal.SIGKILL)
    assert is_gone_soon(pid)


def test_a_program_ends_when_its_keeper_is_killed(tmp_path: Path) -> None:
    program = Program("sleeper", ["/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], tmp_path / "log")
    pid = pid_in(tmp_path)
    keeper = int(Path(f"/proc/{pid}/stat").read_text().split()[3])
    os.kill(keeper, signal.SIGKILL)
    assert is_gone_soon(pid)
    program.stop()


def test_a_program_that_ends_by_itself_leaves_its_code_and_its_log(tmp_path: Path) -> None:
    program = Program("loud", ["/bin/sh", "-c", "echo it went wrong; exit 7"], tmp_path / "log")
    deadline = time.monotonic() + 10
    while program.ended() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (program.ended(), program.tail()) == (7, "it went wrong")
    program.stop()


def test_ports_are_distinct() -> None:
    assert len(set(free_ports(10))) == 10


def test_ports_are_none_that_connections_are_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = tmp_path / "range"
    monkeypatch.setattr(processes, "_CONNECTION_PORTS", told)
    told.write_text("20000\t60999\n")
    assert all(port < 20_000 for port in free_ports(10))
    told.write_text("1024\t60999\n")
    assert len(set(free_ports(3))) == 3, "where all belong to connections, any free ones are taken"
    told.unlink()
    assert all(port < 32_768 for port in free_ports(3))


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    certificates = write_certificates(tmp_path)
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, name="n", url="https://x", authority=certificates.authority, user="u", token="t")
    for path in (certificates.server_key, certificates.service_account_key, kubeconfig):
        assert path.stat().st_mode & 0o077 == 0
    assert certificates.service_account_key.read_text().startswith("-----BEGIN EC PRIVATE KEY-----")
