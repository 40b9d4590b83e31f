"""`from spinney import place, plan, explain`: names that programs rely on, what the functions give and raise."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import spinney
from spinney import ClientError, WorkloadNotFound, explain, place, plan
from spinney.drive.client.config import credentials, kubeconfig
from unit.cli.canned_cluster import CannedCluster

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "library.txt"
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.S)
SET = ROOT / "examples" / "pending" / "set.yaml"
LAPTOP = ROOT / "examples" / "nodes" / "laptop.yaml"
PROBLEM: dict[str, Any] = {
    "version": 1,
    "resources": ["cpu"],
    "nodes": [{"name": "n0", "allocatable": {"cpu": 4}}],
    "gangs": [{"name": "ns/g", "pods": [{"name": "w"}]}],
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "ns"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster that a kubeconfig leads to; it has one pod."""
    monkeypatch.setattr(kubeconfig, "find_connection", lambda *_, **__: credentials.Connection)
    monkeypatch.setattr(kubeconfig, "connect", lambda *_, **__: CannedCluster({"podgroups": [], "pods": [POD]}))


def surface() -> str:
    """Public names with their signatures, or, for answers, with their fields."""
    lines = []
    for name in sorted(spinney.__all__):
        found = getattr(spinney, name)
        if inspect.isfunction(found):
            lines.append(f"{name}{inspect.signature(found)}")
        elif isinstance(found, type) and issubclass(found, Exception):
            lines.append(f"{name}: exception")
        elif isinstance(found, type):
            named = found.__struct_fields__ if issubclass(found, msgspec.Struct) else found.__dataclass_fields__  # type: ignore[attr-defined]
            members = [*named, *(each for each, one in vars(found).items() if isinstance(one, property))]
            lines.append(f"{name}: {', '.join(members)}")
        else:
            lines.append(name)
    return "\n".join(lines) + "\n"


def test_the_public_names_are_those_that_were_promised() -> None:
    assert surface() == GOLDEN.read_text()


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'forecast'"):
        spinney.forecast  # noqa: B018
    assert set(spinney.__all__) <= set(dir(spinney))


def test_an_import_loads_nothing_heavy() -> None:
    heavy = "import sys, spinney; print([n for n in ('numpy', 'aiohttp', 'msgspec', 'asyncio') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[-1])
def test_the_examples_of_the_page_run(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(example, "docs/library.md", "exec"), {})


def test_a_problem_may_be_a_file_a_text_or_values(tmp_path: Path) -> None:
    text = yaml.safe_dump(PROBLEM)
    file = tmp_path / "problem.yaml"
    file.write_text(text)
    assert place(PROBLEM) == place(text) == place(file)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**PROBLEM, "nodes": 3}, "nodes: found 3"),
        ("nodes: [", "the text:2: not YAML"),
        (Path("nowhere.yaml"), "nowhere.yaml: cannot be read"),
    ],
)
def test_what_is_no_problem_is_a_value_error(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        place(given)


def test_manifests_may_be_a_file_a_text_or_objects() -> None:
    answers = [plan(each, nodes=LAPTOP) for each in (SET, SET.read_text(), list(yaml.safe_load_all(SET.read_text())))]
    assert [answer.fits for answer in answers] == [False] * 3
    assert answers[0].gangs == answers[1].gangs == answers[2].gangs


def test_nodes_may_be_a_text() -> None:
    assert plan([POD], nodes=LAPTOP.read_text(), copies=2).fits


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ([], {}, "manifests: found no manifest"),
        ([{"kind": "Pod"}], {}, "the objects, document 1: apiVersion"),
        ([POD], {"copies": 0}, "copies: found 0"),
        ([POD], {"kubeconfig": Path("k")}, "exclude each other"),
        ([POD], {"config": Path("nowhere")}, "nowhere: cannot be read"),
    ],
)
def test_what_can_not_be_planned_is_a_value_error(given: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan(given, nodes=LAPTOP, **more)


@pytest.mark.usefixtures("cluster")
def test_a_pod_of_a_cluster_is_explained() -> None:
    (gang,) = explain("ns/a").gangs
    assert gang.waits
    assert gang.lines == ("it is in no PodGroup, so that no gang scheduler looks at it",)


@pytest.mark.usefixtures("cluster")
def test_inside_of_a_loop_a_thread_asks() -> None:
    async def ask() -> str:
        return (await asyncio.to_thread(explain, "ns/a")).kind

    assert asyncio.run(ask()) == "Pod"


@pytest.mark.usefixtures("cluster")
def test_what_is_not_there_is_told() -> None:
    with pytest.raises(WorkloadNotFound, match="there is no workload or pod ns/b"):
        explain("ns/b")
    with pytest.raises(ValueError, match="expected NAMESPACE/NAME"):
        explain("a")


def test_a_cluster_that_can_not_be_read_is_a_client_error(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="nowhere"):
        explain("ns/a", kubeconfig=tmp_path / "nowhere")
