"""Write what is printed today into the tutorial, where it differs; `...` and matching output stay as they are.

PYTHONPATH=tests python tests/docs/record_tutorial.py docs/tutorial.md
PYTHONPATH=tests python tests/docs/record_tutorial.py docs/tutorial.md --real    # only show what differs there
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from docs.session_kit import Difference, Step, play, read_steps, stack
from spinney.sim.kubernetes.assets import find_or_build_assets


def recorded(text: str, differences: list[Difference]) -> str:
    """The text with the output of the differing steps replaced, from the end so that line numbers hold."""
    lines = text.splitlines()
    for difference in reversed(differences):
        step = difference.step
        first_output = step.start + step.command.count("\n")
        lines[first_output : step.end] = _trimmed(difference.printed)
    return "\n".join(lines) + "\n"


def _trimmed(printed: Sequence[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in printed).rstrip("\n").splitlines()


def main(path: Path, *options: str) -> None:
    text = path.read_text()

    def tell(step: Step, seconds: float) -> None:
        sys.stderr.write(f"{seconds:5.1f} s  {step.command}\n")

    kubectl = find_or_build_assets().kubectl
    with tempfile.TemporaryDirectory() as scratch, stack(Path(scratch), kubectl, *options, patience_s=1.0) as shell:
        differences = play(shell, read_steps(text), tell)
    for difference in differences:
        sys.stderr.write(f"{difference}\n\n")
    if not options:
        path.write_text(recorded(text, differences))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
