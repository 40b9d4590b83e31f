"""The table of docs/embedded-api-server.md: behaviours, and how many contract cases pytest finds for each.

A case is counted once, a run for each server that it runs on. Nothing is written by hand: what a module is about is the
first line of its docstring.

    python tools/contract_table.py            # print the table
    python tools/contract_table.py --write    # put it into the page
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "embedded-api-server.md"
DIRECTORIES = ("tests/contract", "tests/kubectl", "tests/clients")
BEGIN, END = "<!-- cases: written by tools/contract_table.py -->", "<!-- end of cases -->"
SERVERS = ("embedded", "real")


def collect() -> list[str]:
    """The ids of all contract cases, one for each server."""
    arguments = [sys.executable, "-m", "pytest", *DIRECTORIES, "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return [line for line in done.stdout.splitlines() if "::" in line]


def case_of(item: str) -> str:
    """The id without the server it runs on."""
    name, bracket, given = item.partition("[")
    server, _, rest = given.rstrip("]").partition("-")
    return f"{name}[{rest}]" if server in SERVERS else f"{name}{bracket}{given}"


def behaviour(module: Path) -> str:
    """What a module says it is about: the first line of its docstring."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or module.stem
    return text.splitlines()[0].rstrip(".").replace("|", "\\|")


def table(items: Iterable[str]) -> str:
    """A row for each module, and the sum."""
    runs: dict[str, list[str]] = defaultdict(list)
    for item in items:
        runs[item.partition("::")[0]].append(item)
    rows = ["| behaviour | module | cases | runs |", "|---|---|---:|---:|"]
    for module, found in sorted(runs.items()):
        path = ROOT / module
        cases = len({case_of(item) for item in found})
        rows.append(f"| {behaviour(path)} | [{path.stem}](../{module}) | {cases} | {len(found)} |")
    cases = len({case_of(item) for found in runs.values() for item in found})
    return "\n".join([*rows, f"| **all** | | **{cases}** | **{sum(map(len, runs.values()))}** |"])


def with_table(page: str, shown: str) -> str:
    """The page with the table between its marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{shown}\n{END}{after}"


def main(arguments: list[str]) -> None:
    shown = table(collect())
    if "--write" in arguments:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), shown), encoding="utf-8")
    else:
        sys.stdout.write(f"{shown}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
