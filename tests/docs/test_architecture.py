"""The map of the code is true: paths exist, names are defined there, and a traced pod goes the way that is written."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs.pod_trace import Call, Trace, trace_gang
from docs.session_kit import ROOT

PAGES = (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md")
_PATH = re.compile(r"`((?:src/spinney/|tests/|tools/)?[\w/]+(?:\.py|/))`((?:(?::|,) `[A-Za-z_][\w.]*`)*)")
_NAME = re.compile(r"`([A-Za-z_][\w.]*)`")
_BASES = ("", "src/spinney/", "src/spinney/core/admission/podcliqueset/", "src/spinney/core/expansion/")


def named(text: str) -> list[tuple[str, str]]:
    """Paths with the names that stand behind them; a path alone has the name ''."""
    found = []
    for path, behind in _PATH.findall(text):
        found += [(path, name) for name in _NAME.findall(behind) or [""]]
    return found


def exists(path: str) -> bool:
    """A folder may be named by its last part alone."""
    below = path.endswith("/") and any((ROOT / "src").rglob(path))
    return below or any((ROOT / base / path).exists() for base in _BASES)


def steps(text: str) -> list[tuple[str, str]]:
    """The functions in the rows of the way of a pod, in their order."""
    rows = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    return [(path, name) for row in rows for path, name in named(row) if name]


def defines(path: str, name: str) -> bool:
    tree = ast.parse((ROOT / "src" / "spinney" / path).read_text(encoding="utf-8"))
    first, _, member = name.partition(".")
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [each for each in tree.body if isinstance(each, kinds) and each.name == first]
    if not member or not found:
        return bool(found)
    return any(isinstance(each, kinds) and each.name == member for each in found[0].body)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_on_the_map_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [path for path, _ in named(text) if not exists(path)] == []


def test_every_step_of_a_pod_names_something_that_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    steps = [(path, name) for path, name in named(text) if name]
    assert len(steps) >= 18
    assert [f"{path}: {name}" for path, name in steps if not defines(path, name)] == []


def test_a_name_that_is_gone_is_noticed() -> None:
    assert not defines("drive/apply/door.py", "Door.bind_by_hand")
    assert not defines("drive/apply/door.py", "Window")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return trace_gang()


def test_a_pod_takes_the_steps_in_the_order_of_the_page(trace: Trace) -> None:
    way = steps((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert len(way) >= 18
    functions = [call for call in way if "." in call[1] or call[1].islower()]
    assert [call for call in trace.calls if call in set(functions)] == functions
    classes = [call for call in way if call not in functions]
    assert [each for each in classes if not _is_entered(trace, *each)] == []


def test_the_way_of_a_pod_is_as_short_as_the_page_says(trace: Trace) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    on_the_way = {file for step in steps(text) for file in trace.callers[_entered(trace, *step)]}
    assert len(on_the_way) <= _number(text, r"goes through (\d+) files"), sorted(on_the_way)
    assert len(trace.files) <= _number(text, r"reads, counts and writes with (\d+)"), sorted(trace.files)


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    assert found is not None
    return int(found[1])


def _entered(trace: Trace, path: str, name: str) -> Call:
    """The function, or what is called first of a class."""
    return next(
        call for call in trace.calls if call == (path, name) or (call[0] == path and call[1].startswith(f"{name}."))
    )


def _is_entered(trace: Trace, path: str, name: str) -> bool:
    return any(where == path and call.startswith(f"{name}.") for where, call in trace.calls)
