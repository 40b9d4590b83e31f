"""`python -m benchmarks.scheduler`."""

from __future__ import annotations

import sys

from benchmarks.scheduler import run
from benchmarks.scheduler.embedded import profiled

if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    if "--profile" in sys.argv:
        profiled(*counts)
    else:
        for title, figures, goal in run(lambda text: print(text, file=sys.stderr), *counts):
            print(f"{title}: {figures}   (goal: {goal})")
