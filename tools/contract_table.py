"""The table of docs/embedded-api-server.md: behaviours, and how many contract cases pytest finds for each.

python tools/contract_table.py            # print the table
python tools/contract_table.py --write    # put it into the page
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "embedded-api-server.md"
DIRECTORIES = ("tests/contract", "tests/kubectl", "tests/clients")
BEGIN, END = "<!-- cases: written by tools/contract_table.py -->", "<!-- end of cases -->"
SERVERS = ("embedded", "real")


def collect() -> list[str]:
    """The ids of all contract cases, one per server."""
    arguments = [sys.executable, "-m", "pytest", *DIRECTORIES, "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return [line for line in done.stdout.splitlines() if "::" in line]


def server_of(item: str) -> str | None:
    """Which server a case runs on; None for a case that needs none."""
    given = item.partition("[")[2].rstrip("]")
    return next((server for server in SERVERS if given == server or given.startswith(f"{server}-")), None)


def behaviour(module: Path) -> str:
    """What a module says it is about: the first line of its docstring."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or module.stem
    return text.splitlines()[0].rstrip(".").replace("|", "\\|")


def table(items: Iterable[str]) -> str:
    """A row per module, and the sum."""
    found = [(item.partition("::")[0], server_of(item)) for item in items]
    per_module = Counter(found)
    rows = ["| behaviour | module | cases | embedded | real |", "|---|---|---:|---:|---:|"]
    for module in sorted({module for module, _ in found}):
        path = ROOT / module
        on = [per_module[module, server] for server in SERVERS]
        cases = max(*on) + per_module[module, None]
        rows.append(f"| {behaviour(path)} | [{path.stem}](../{module}) | {cases} | {on[0]} | {on[1]} |")
    sums = [sum(count for (_, server), count in per_module.items() if server == name) for name in SERVERS]
    cases = sum(int(row.split("|")[-4]) for row in rows[2:])
    return "\n".join([*rows, f"| **all** | | **{cases}** | **{sums[0]}** | **{sums[1]}** |"])


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
