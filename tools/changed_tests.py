"""The unit tests of what changed: those that were changed themselves, and those that import a changed module.

`python tools/changed_tests.py [REVISION]` prints their files, one a line. Without a revision: of what is not
committed yet.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def changed(revision: str) -> set[Path]:
    """Files that differ from the revision, and those that git does not know yet."""
    commands = (["git", "diff", "--name-only", revision], ["git", "ls-files", "--others", "--exclude-standard"])
    lines = [subprocess.run(each, cwd=ROOT, capture_output=True, text=True, check=True).stdout for each in commands]
    return {Path(line) for line in "".join(lines).splitlines() if line.endswith(".py")}


def module_of(path: Path) -> str:
    """`src/spinney/api/meta.py` is `spinney.api.meta`; a test kit is known by its path below `tests`."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def tests_of(files: Iterable[Path]) -> list[Path]:
    """Unit tests that are among the files or import one of them."""
    files = set(files)
    modules = {module_of(each) for each in files if each.parts[0] in ("src", "tests")}
    found = (each.relative_to(ROOT) for each in sorted((ROOT / "tests" / "unit").rglob("test_*.py")))
    return [each for each in found if each in files or not modules.isdisjoint(imports(ROOT / each))]


if __name__ == "__main__":
    sys.stdout.writelines(f"{each}\n" for each in tests_of(changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD")))
