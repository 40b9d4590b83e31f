"""Many seeds of the fault simulation: a stretch at a time, in several processes, with figures and progress.

What has been played on this very tree is kept in a file and not played again, so that a long run can be interrupted:
`python -m simulation.seeds FIRST COUNT [PROCESSES]` in `tests`.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from random import Random

import msgspec

from simulation.trial import Trial, play, replay

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".seeds"
STRETCH = 20
_JUDGED = ("src", "tests/simulation")
"""What a seed's run is made of: whoever changes something here draws other fresh seeds."""

Say = Callable[[str], None]


class Stretch(msgspec.Struct, frozen=True):
    """Seeds one after another, and what came of them. `broken`: sentences with how to replay them."""

    tree: str
    first: int
    count: int
    figures: dict[str, int]
    broken: list[str]


def tree_hash(root: Path = ROOT) -> str:
    """Of the files that are there, whatever their history: the same tree gives the same answer."""
    found = hashlib.sha256()
    for path in sorted(path for name in _JUDGED for path in (root / name).rglob("*") if _counts(path)):
        content = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()


def fresh_seeds(count: int = 20, tree: str | None = None) -> list[int]:
    """Seeds that nobody has tuned anything to, drawn from the tree; the fixed ones are never among them."""
    return Random(tree or tree_hash()).sample(range(10**6, 10**9), count)


def broken_by(seed: int) -> list[str]:
    """What a seed breaks, in sentences that say how to replay it."""
    return _sentences(_tried(seed))


def stretches(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Beginnings and lengths; cut at round numbers, so that ranges which overlap share what is kept of them."""
    at, end = first, first + count
    while at < end:
        stop = min(end, (at // STRETCH + 1) * STRETCH)
        yield at, stop - at
        at = stop


def run(first: int, count: int, *, processes: int = 2, kept: Path = KEPT, say: Say = print) -> list[Stretch]:
    """Play so many seeds from the first on; those kept of the same tree are not played again."""
    tree = tree_hash()
    file = kept / f"{tree[:16]}.jsonl"
    known = {(each.first, each.count): each for each in _read(file)}
    todo = list(stretches(first, count))
    done = [known[each] for each in todo if each in known]
    say(f"seeds {first} to {first + count - 1}, tree {tree[:16]}: {sum(each.count for each in done)} played before")
    with ProcessPoolExecutor(processes) as pool:
        tasks = [pool.submit(_played, tree, *each) for each in todo if each not in known]
        for task in as_completed(tasks):
            done.append(task.result())
            _append(file, done[-1])
            _tell(done, count, say)
    return sorted(done, key=lambda each: each.first)


def summary(done: Sequence[Stretch]) -> list[str]:
    """The figures, and everything that was broken."""
    figures: Counter[str] = Counter()
    for each in done:
        figures.update(each.figures)
    broken = [sentence for each in done for sentence in each.broken]
    lines = [f"{times:10} {what}" for what, times in sorted(figures.items())]
    return [*lines, f"{len(broken):10} promises broken", *broken]


def _played(tree: str, first: int, count: int) -> Stretch:
    """The first of them twice: it has to be the same run, byte for byte."""
    figures: Counter[str] = Counter()
    broken: list[str] = []
    for seed in range(first, first + count):
        trial = _tried(seed)
        figures += trial.figures
        broken += _sentences(trial)
        if seed == first and _tried(seed).digest != trial.digest:
            broken.append(f"seed {seed}: LIVE is not the same run twice ({replay(seed)})")
    return Stretch(tree, first, count, dict(figures), broken)


def _tried(seed: int) -> Trial:
    """A seed that cannot be played to its end is a broken one; the others are played all the same."""
    try:
        return play(seed)
    except Exception as error:
        return Trial(seed, [f"it could not be played to its end: {error!r}"])


def _sentences(trial: Trial) -> list[str]:
    return [f"seed {trial.seed}: {sentence} ({replay(trial.seed)})" for sentence in trial.broken]


def _tell(done: Sequence[Stretch], count: int, say: Say) -> None:
    for sentence in done[-1].broken:
        say(sentence)
    played, broken = sum(each.count for each in done), sum(len(each.broken) for each in done)
    say(f"{played} of {count} seeds played, {broken} promises broken")


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def _read(file: Path) -> list[Stretch]:
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [msgspec.json.decode(line, type=Stretch) for line in lines if line.endswith(b"}")]


def _append(file: Path, stretch: Stretch) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        out.write(msgspec.json.encode(stretch) + b"\n")


if __name__ == "__main__":
    ended = run(int(sys.argv[1]), int(sys.argv[2]), processes=int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    print("\n".join(summary(ended)))
    sys.exit(any(each.broken for each in ended))
