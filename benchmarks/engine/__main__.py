"""Parts of the suite alone: `python -m benchmarks.engine speed memory`. With `--readme` the figures go there, too."""

from __future__ import annotations

import sys

from benchmarks.engine import PARTS, run
from benchmarks.engine.tables import write

if __name__ == "__main__":
    wanted = [word for word in sys.argv[1:] if word != "--readme"] or list(PARTS)
    unknown = sorted(set(wanted) - set(PARTS))
    if unknown:
        sys.exit(f"unknown part {unknown[0]!r}, expected some of {', '.join(PARTS)}")
    rows = run(lambda text: print(text, file=sys.stderr, flush=True), wanted)
    if "--readme" in sys.argv:
        write(rows)
    for case, figures, goal in rows:
        print(f"{case}: " + ", ".join(f"{key} {value}" for key, value in figures.items()))
        print(f"    goal: {goal}")
