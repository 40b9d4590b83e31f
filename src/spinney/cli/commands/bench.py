"""`spinney bench`: run a benchmark suite and print its figures."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import click

SUITES = ("apiserver", "client", "engine", "operator", "scheduler")


@click.command(
    epilog="""\b
Examples:
  spinney bench apiserver
  spinney bench apiserver client -o json
""",
)
@click.argument("suites", nargs=-1, type=click.Choice(SUITES))
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def bench(suites: tuple[str, ...], output: str) -> None:
    """Run benchmark suites (all of them when none is named) and print figures and goals.

    Figures depend on the machine; run them while nothing else runs.
    """
    results = {name: _run(name) for name in suites or SUITES}
    if output == "json":
        shown = {name: [{"case": c, "figures": f, "goal": g} for c, f, g in rows] for name, rows in results.items()}
        click.echo(json.dumps(shown, indent=2))
        return
    for name, rows in results.items():
        click.echo(name)
        for case, figures, goal in rows:
            click.echo(f"  {case}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))
            click.echo(f"      goal: {goal}")


def _run(name: str) -> list[tuple[str, dict[str, Any], str]]:
    root = str(Path(__file__).resolve().parents[4])
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        module = importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"the benchmarks are part of a source checkout, and {error.name} is not here"
        ) from None
    rows: list[tuple[str, dict[str, Any], str]] = module.run(lambda text: click.echo(text, err=True))
    return rows
