"""Every place that reads YAML or JSON from outside, against one table of hostile texts: refused in words, at once, in
little memory."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hostile_documents import DOCUMENTS, MIB, SHORT
from kube_embedded.base.errors import ApiError
from kube_embedded.base.http import HttpRequest
from kube_embedded.requests.bodies import read_patch
from spinney.api.documents import DocumentError
from spinney.api.dynamo_conversion.preserved_fields import NOTHING, take
from spinney.api.labels import KAI_TOP_OWNER_METADATA
from spinney.api.operator_configuration import ConfigurationError, load_configuration
from spinney.cli.main import cli
from spinney.cli.wiring.api_servers import StackOptions
from spinney.cli.wiring.roles.dashboard import answering
from spinney.core.scheduling import plan as recorded_plan
from spinney.core.scheduling.reporting.report import decode as decode_report
from spinney.drive.client.config.exec_plugin import Plugin, _read
from spinney.drive.client.config.kubeconfig import read_kubeconfig
from spinney.drive.client.errors import ConfigError, CredentialError
from spinney.serve.dashboard.data_sources import Questions
from spinney.serve.webhook.handler import CONVERT, MUTATE, VALIDATE, AdmissionUnion, Webhook, converted
from spinney.sim.world import _documents
from spinney.whatif.context import _top_uid
from spinney.whatif.inputs.operator_settings import ConfigurationError as OptionError
from spinney.whatif.request import planner
from spinney.whatif.workloads import _top_owner
from unit.dashboard.site import site
from unit.dashboard.world import World
from unit.webhook.test_serving import JSON_HEADERS, Nothing

EXAMPLES = Path(__file__).parents[2] / "examples"
LAPTOP = ("--nodes", str(EXAMPLES / "nodes" / "laptop.yaml"))
MANIFEST = str(EXAMPLES / "workloads")
TRACE = str(next((EXAMPLES / "traces").glob("*.csv")))

COMMANDS: dict[str, tuple[str, ...]] = {
    "validate": ("validate", "-f", "FILE"),
    "validate --topology": ("validate", "-f", MANIFEST, "--topology", "FILE"),
    "validate --config": ("validate", "-f", MANIFEST, "--config", "FILE"),
    "plan": ("plan", "-f", "FILE", *LAPTOP),
    "plan --nodes": ("plan", "-f", MANIFEST, "--nodes", "FILE"),
    "plan --config": ("plan", "-f", MANIFEST, *LAPTOP, "--config", "FILE"),
    "plan --kubeconfig": ("plan", "-f", MANIFEST, "--kubeconfig", "FILE"),
    "convert": ("convert", "-f", "FILE", "--to", "v1beta1"),
    "topology lint": ("topology", "lint", "-f", "FILE"),
    "topology discover": ("topology", "discover", "--nodes", "FILE"),
    "manifests": ("manifests", "deployments", "--config", "FILE"),
    "replay --nodes": ("replay", TRACE, "--nodes", "FILE"),
    "replay --topology": ("replay", TRACE, *LAPTOP, "--topology", "FILE"),
    "place": ("place", "FILE"),
}


@contextlib.contextmanager
def bounded(cpu_s: float = 10.0, mib: int = 200) -> Iterator[None]:
    """No more processor time and no more memory than this."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + mib * MIB, hard))
    began = time.process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert time.process_time() - began < cpu_s


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """Modules that commands import when they run are not counted."""
    for arguments in (("plan", "-f", MANIFEST, *LAPTOP), ("validate", "-f", MANIFEST), ("manifests", "all")):
        CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_hostile_file_with_status_2_and_one_line(command: str, tmp_path: Path) -> None:
    file = tmp_path / "hostile"
    arguments = [str(file) if each == "FILE" else each for each in COMMANDS[command]]
    CliRunner().invoke(cli, arguments)
    for name, (text, words) in DOCUMENTS.items():
        file.write_bytes(text)
        with bounded():
            found = CliRunner().invoke(cli, arguments)
        said = found.stderr
        assert (found.exit_code, said.count("\n")) == (2, 1), (name, said[-300:], found.exception)
        assert words in said, (name, said)
        assert len(said) < 500, name


def test_lines_of_problems_are_refused_with_status_2() -> None:
    for name, (text, _) in DOCUMENTS.items():
        with bounded():
            found = CliRunner().invoke(cli, ["place", "--jsonl"], input=text.replace(b"\n", b" "))
        assert found.exit_code == 2, (name, found.output[-300:])


async def test_the_page_that_plans_refuses_in_a_sentence() -> None:
    class NoCluster:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("a cluster was asked for what cannot be read")

    client: Any = NoCluster()
    questions = Questions(plan=answering(planner(client)))
    async with site(World(), questions) as pages:
        for name, text in SHORT.items():
            form = {"manifest": text.decode("utf-8", "replace")}
            with bounded():
                answer = await pages.post("/plan", data=form)
            assert answer.status_code in (200, 400, 413, 422), (name, answer.status_code)
            assert "the text" in answer.text or answer.status_code == 413, name


@pytest.mark.parametrize("path", [MUTATE, VALIDATE, CONVERT])
async def test_the_webhook_answers_a_bad_request(path: str) -> None:
    webhook = Webhook(AdmissionUnion(()), Nothing(), pages={CONVERT: converted})
    before, after = b'{"apiVersion": "v1", "kind": "AdmissionReview", "request": {"uid": "u", "object": ', b"}}"
    for name, (text, _) in DOCUMENTS.items():
        for body in (text, before + text + after):
            with bounded():
                reply = await webhook.handle(HttpRequest("POST", path, headers=JSON_HEADERS, body=body))
            assert reply.status == 400, (name, reply.body[:300])
            assert len(reply.body) < 1000, name


def _use_kubeconfig(file: Path) -> None:
    read_kubeconfig([file])


def _overwrite_kubeconfig(file: Path) -> None:
    StackOptions(None, file, "127.0.0.1", 0, None, False, ()).check()


def _configure(file: Path) -> None:
    load_configuration(file.read_bytes())


def _apply_to_a_world(file: Path) -> None:
    _documents(file.read_bytes().decode("utf-8", "replace"))


def _run_plugin(file: Path) -> None:
    _read(Plugin("program", (), {}, "client.authentication.k8s.io/v1", "Never", ""), file.read_bytes())


FUNCTIONS: dict[str, tuple[Callable[[Path], None], type[Exception]]] = {
    "kubeconfig": (_use_kubeconfig, ConfigError),
    "a kubeconfig that would be overwritten": (_overwrite_kubeconfig, OptionError),
    "configuration of the operator": (_configure, ConfigurationError),
    "manifests of a simulated world": (_apply_to_a_world, DocumentError),
    "output of a credential plugin": (_run_plugin, CredentialError),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_reader_refuses_by_its_own_error(name: str, tmp_path: Path) -> None:
    read, error = FUNCTIONS[name]
    file = tmp_path / "hostile"
    for row, (text, _) in DOCUMENTS.items():
        file.write_bytes(text)
        if read is _apply_to_a_world and "UTF" in row:
            continue  # given as text
        with bounded(), pytest.raises(error) as caught:
            read(file)
        assert len(str(caught.value)) < 600, row


def test_annotations_that_others_wrote_are_read_as_nothing() -> None:
    for name, text in SHORT.items():
        if "UTF" in name:
            continue  # no annotation holds other bytes
        written = text.decode()
        with bounded():
            assert _top_owner({KAI_TOP_OWNER_METADATA: written}) == {}, name
            assert _top_uid({KAI_TOP_OWNER_METADATA: f"uid: {written}"}) == "" or "\n" in written, name
            assert decode_report(written) is None, name
            assert take({"annotations": {"a": written}}, "a", "v1") == NOTHING, name
            with pytest.raises(recorded_plan.PlanError):
                recorded_plan.decode(written)
            with pytest.raises(recorded_plan.PlanError):
                recorded_plan.decode('{"v": 1, "unknown": ' + written + "}")


@pytest.mark.parametrize("yaml", [True, False])
def test_the_embedded_server_refuses_a_hostile_patch(yaml: bool) -> None:
    refused = 0
    for text, _ in DOCUMENTS.values():
        with bounded():
            try:
                read_patch(text, yaml=yaml)
            except ApiError as error:
                refused += 1
                assert 400 <= error.code < 500
    assert refused >= len(DOCUMENTS) / 2


@pytest.mark.parametrize("command", ["validate", "plan"])
@pytest.mark.parametrize("row", ["aliases that multiply", "deep lists below a key"])
def test_a_process_neither_dies_nor_grows(command: str, row: str) -> None:
    """What ended them before: six gigabytes, or a signal."""
    arguments = [sys.executable, "-m", "spinney.cli.main", command, "-f", "-", *(LAPTOP if command == "plan" else ())]
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1500 * MIB, 1500 * MIB))  # noqa: E731
    done = subprocess.run(
        arguments, input=DOCUMENTS[row][0], capture_output=True, check=False, timeout=120, preexec_fn=limit
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1), done.stderr[-500:]
