"""What the make targets install: running needs no tools for development, testing does."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def recipe(tmp_path: Path, target: str) -> str:
    """What `make` would do where nothing is installed yet."""
    words = ["make", "--dry-run", target, f"VENV={tmp_path / 'venv'}"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_up_installs_without_the_tools_for_development(tmp_path: Path) -> None:
    [sync] = [line for line in recipe(tmp_path, "up").splitlines() if "uv sync" in line]
    assert "--no-dev" in sync and "--frozen" in sync


def test_make_test_installs_the_tools_for_development(tmp_path: Path) -> None:
    syncs = [line for line in recipe(tmp_path, "lint").splitlines() if "uv sync" in line]
    assert len(syncs) == 1 and "--no-dev" not in syncs[0]
