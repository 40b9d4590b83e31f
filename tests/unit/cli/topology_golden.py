"""Output of commands compared with files; SPINNEY_UPDATE_GOLDEN=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

from click.testing import CliRunner, Result

from spinney.cli.main import cli

GOLDEN = Path(__file__).parents[2] / "golden" / "cli" / "topology"
EXAMPLES = Path(__file__).parents[3] / "examples"


def run(*arguments: str, columns: int = 0, stdin: str | None = None) -> Result:
    """As in a pipe: no terminal, no colours, 80 columns unless COLUMNS says otherwise."""
    env = {"COLUMNS": str(columns) if columns else None, "NO_COLOR": None, "KUBECONFIG": "/nowhere/at/all"}
    return CliRunner().invoke(cli, ["topology", *arguments], input=stdin, env=env)


def check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("SPINNEY_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
