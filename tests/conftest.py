"""Two servers for the contract tests: the embedded one and a real kube-apiserver, each under the same fixtures."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import structlog

from cluster_kit.real_programs import CLIENT_GO, NO_CLIENT_GO, NO_NODE, NO_REAL
from cluster_kit.server import Server
from cluster_kit.servers import SERVERS, embedded_server, real_server
from cluster_kit.space import Space
from distribution import ByInstallation, in_order, make_scheduler
from simulation.fresh_seed_report import told
from spinney.sim.kubernetes.assets import (
    AssetsUnavailable,
    find_or_build_assets,
    find_or_build_helm,
    find_or_build_program,
)
from spinney.sim.kubernetes.node.cluster import find_or_build_programs

UNAVAILABLE = pytest.StashKey[str]()
LOUD = {
    NO_REAL: "TESTS DID NOT RUN AGAINST A REAL KUBE-APISERVER",
    NO_CLIENT_GO: "TESTS WITH CLIENT-GO DID NOT RUN",
    NO_NODE: "TESTS DID NOT RUN ON A REAL NODE",
}
"""What is said of tests that were skipped for these reasons."""


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Simulated histories silence the log of the whole process, and a process runs tests of every kind."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _leave_out_the_long_suite(config, items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByInstallation:
    return make_scheduler(config, log)


def _leave_out_the_long_suite(config: pytest.Config, items: list[pytest.Item]) -> None:
    """It runs only when it is asked for."""
    if "long" in (config.getoption("markexpr") or ""):
        return
    skip = pytest.mark.skip(reason="the long suite runs with `make long`, that is -m long")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what tests need before the first of them, where no test's timeout runs."""
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if "client_go" in fixtures:
        with suppress(AssetsUnavailable):  # told by the fixture
            find_or_build_program(CLIENT_GO)
    if any(item.get_closest_marker("node") for item in session.items):
        with suppress(AssetsUnavailable):  # told by the tests
            find_or_build_programs()
    if not any(item.get_closest_marker("real") for item in session.items):
        return
    try:
        find_or_build_assets()
        if "helm" in fixtures:
            find_or_build_helm()
    except AssetsUnavailable as unavailable:
        session.config.stash[UNAVAILABLE] = str(unavailable)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Loud lines, also about tests that were skipped, or passed, in other processes."""
    for line in told(terminalreporter.stats.get("passed", [])):
        terminalreporter.write_line(line, red=True, bold=True)
    for reason, words in LOUD.items():
        skipped = [report for report in terminalreporter.stats.get("skipped", []) if reason in str(report.longrepr)]
        if skipped:
            why = str(skipped[0].longrepr[2])
            terminalreporter.write_line(f"{len(skipped)} {words}: {why}", red=True, bold=True)
    if terminalreporter.config.option.durations:
        _print_time_by_folder(terminalreporter)


def _print_time_by_folder(terminalreporter: pytest.TerminalReporter) -> None:
    """Where the minutes of a run go, set-ups included; all workers together."""
    spent: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent[_part_of(report.nodeid)] += report.duration
    terminalreporter.section("time by folder")
    for part, duration_s in sorted(spent.items(), key=lambda each: -each[1]):
        terminalreporter.write_line(f"{duration_s:8.0f} s  {part}")


def _part_of(nodeid: str) -> str:
    """`contract` of a contract test, `unit/view` of a unit test."""
    folders = nodeid.partition("::")[0].removeprefix("tests/").split("/")[:-1]
    return "/".join(folders[: 2 if folders[:1] == ["unit"] else 1])


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory shared by all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def _real(
    pytestconfig: pytest.Config, run_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    why = pytestconfig.stash.get(UNAVAILABLE, "")
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"{NO_REAL}: {why}", pytrace=False)
    if why:
        pytest.skip(f"{NO_REAL}: {why}")
    with real_server(run_directory / "real", tmp_path_factory.mktemp("real")) as server:
        yield server


@pytest.fixture(scope="session")
def _embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with embedded_server(tmp_path_factory.mktemp("embedded")) as server:
        yield server


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(f"_{request.param}")
    return found


@pytest.fixture
def unique() -> str:
    """A word no other test uses, fit for names of the cluster's scope."""
    return f"t{secrets.token_hex(5)}"


@pytest.fixture
def cluster(server: Server) -> Iterator[Space]:
    """The server without a namespace; what is created through it is deleted afterwards."""
    space = Space(server, "")
    yield space
    space.clean()


@pytest.fixture
def space(server: Server, unique: str) -> Iterator[Space]:
    """A fresh namespace; its deletion is asked for and not waited for."""
    path = "/api/v1/namespaces"
    server.http("POST", path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unique}}).ok(201)
    yield Space(server, unique)
    server.http("DELETE", f"{path}/{unique}")


@contextmanager
def _history_lock(run_directory: Path, how: int) -> Iterator[None]:
    with (run_directory / "history.lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


@pytest.fixture
def history_to_keep(run_directory: Path) -> Iterator[None]:
    """Nobody makes a server forget old revisions while this test runs."""
    with _history_lock(run_directory, fcntl.LOCK_SH):
        yield


@pytest.fixture
def history_to_forget(run_directory: Path) -> Iterator[None]:
    """This test may make the server forget: nobody who relies on old revisions runs."""
    with _history_lock(run_directory, fcntl.LOCK_EX):
        yield
