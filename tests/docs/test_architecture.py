"""The map of the code is true: every path on it exists, and every name is defined there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
