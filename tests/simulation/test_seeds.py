"""Seeds drawn from the tree, long runs that can be interrupted, and what is told of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from simulation import fresh_seed_report, seeds
from simulation.seeds import fresh_seeds, run, stretches, summary, tree_hash
from simulation.trial import Trial


def tree(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / "src" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_r4_the_same_tree_draws_the_same_fresh_seeds_and_another_tree_draws_others(tmp_path: Path) -> None:
    one, same = (tree_hash(tree(tmp_path / name, a="x = 1", b="")) for name in ("one", "same"))
    others = [tree_hash(tree(tmp_path / "more", a="x = 2", b="")), tree_hash(tree(tmp_path / "less", a="x = 1"))]
    assert fresh_seeds(20, one) == fresh_seeds(20, same)
    assert not set(fresh_seeds(20, one)) & {seed for other in others for seed in fresh_seeds(20, other)}


def test_r4_what_is_compiled_or_documented_draws_no_other_seeds(tmp_path: Path) -> None:
    before = tree_hash(tree(tmp_path, a="x = 1"))
    for name in ("src/__pycache__/a.pyc", "docs/a.md", "tests/unit/test_a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("y")
    assert tree_hash(tmp_path) == before


def test_r4_fresh_seeds_are_never_the_fixed_ones() -> None:
    assert len(set(fresh_seeds())) == 20
    assert min(fresh_seeds()) >= 10**6


def test_r4_a_range_is_cut_at_round_numbers_so_that_another_range_shares_its_stretches() -> None:
    assert list(stretches(55, 30)) == [(55, 5), (60, 20), (80, 5)]
    assert (60, 20) in list(stretches(0, 100))


def test_r4_a_run_that_was_interrupted_plays_no_seed_again(tmp_path: Path) -> None:
    said: list[str] = []
    (first,) = run(7, 1, processes=1, kept=tmp_path, say=said.append)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes() + b'{"tree":"cut sho')
    assert run(7, 1, processes=1, kept=tmp_path, say=said.append) == [first]
    assert [line.split(": ")[1] for line in said if "before" in line] == ["0 played before", "1 played before"]
    assert "1 of 1 seeds played, 0 promises broken" in said
    assert summary([first])[-1].split() == ["0", "promises", "broken"]


@pytest.mark.parametrize("count", [0, 2])
def test_r4_what_a_fresh_seed_broke_is_told_at_the_end_though_its_test_passed(count: int) -> None:
    broken = [(fresh_seed_report.BROKEN, f"seed {seed}: INV1 (to replay: ...)") for seed in range(count)]
    lines = fresh_seed_report.told([SimpleNamespace(user_properties=[*broken, ("other", "x")]), SimpleNamespace()])
    assert lines[1:] == [f"  seed {seed}: INV1 (to replay: ...)" for seed in range(count)]
    assert bool(lines) == bool(count)


def test_r4_a_seed_that_cannot_be_played_is_told_and_the_others_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_at_one(seed: int) -> Trial:
        if seed == 1:
            raise IndexError("nothing left")
        return Trial(seed)

    monkeypatch.setattr(seeds, "play", fail_at_one)
    assert [sentence.partition(" (")[0] for sentence in seeds.broken_by(1)] == [
        "seed 1: it could not be played to its end: IndexError('nothing left')"
    ]
    assert seeds.broken_by(2) == []
