"""The tutorial and its sequels are replayed: every command, on a fresh stack, with the output that they promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_kit.real_programs import real_programs
from docs.session_kit import FIRST_TERMINAL, ROOT, Step, fits, play, read_steps, settled, stack

TUTORIAL = ROOT / "docs" / "tutorial.md"
PENDING = ROOT / "docs" / "pending.md"
FIRST = ROOT / "docs" / "first-ten-minutes.md"
VERBS = (
    *("get", "describe", "explain", "events", "logs", "diff", "wait", "api-resources", "auth can-i", "auth whoami"),
    *("create namespace", "create configmap", "create secret", "create role", "create -f", "apply", "replace", "edit"),
    *("patch", "label", "annotate", "scale", "taint", "cordon", "uncordon", "drain", "delete"),
)
OPTIONS = (
    *("-w", "-o wide", "-o yaml", "-o json", "-o jsonpath=", "-o custom-columns=", "-l ", "--field-selector"),
    *("--sort-by", "--server-side", "--dry-run=server", "--type=json", "--type=merge", "--subresource"),
    *("--cascade=orphan", "--cascade=foreground", "--as="),
)


@pytest.fixture(scope="session")
def kubectl() -> Path:
    return real_programs().kubectl


@pytest.fixture(scope="session")
def steps() -> list[Step]:
    return read_steps(TUTORIAL.read_text())


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [TUTORIAL, PENDING, FIRST], ids=lambda page: page.stem)
def test_the_tutorial_prints_what_it_says(page: Path, kubectl: Path, tmp_path: Path) -> None:
    steps = read_steps(page.read_text())
    with stack(tmp_path, kubectl) as shell:
        differences = play(shell, steps)
    shown = "\n\n".join(str(difference) for difference in differences[:5])
    assert not differences, f"{len(differences)} of {len(steps)} steps differ; the first ones:\n{shown}"


@pytest.mark.parametrize("verb", VERBS)
def test_the_tutorial_uses(verb: str, steps: list[Step]) -> None:
    assert any(f"kubectl {verb} " in f"{step.command} " for step in steps)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_tutorial_shows(option: str, steps: list[Step]) -> None:
    assert any(f" {option}" in step.command for step in steps)


def test_the_tutorial_uses_every_example(steps: list[Step]) -> None:
    used = " ".join(step.command for step in steps)
    unused = [path.name for path in sorted((ROOT / "examples").glob("*.yaml")) if f"examples/{path.name}" not in used]
    assert not unused


def test_k15_what_to_do_about_a_gang_that_waits_is_shown_with_every_example() -> None:
    used = " ".join(step.command for step in read_steps(PENDING.read_text()))
    examples = sorted((ROOT / "examples" / "pending").glob("*.yaml"))
    assert not [path.name for path in examples if f"examples/pending/{path.name}" not in used]
    assert "spinney explain" in used


@pytest.mark.parametrize("page", [TUTORIAL, PENDING, FIRST], ids=lambda page: page.stem)
def test_every_step_says_what_it_prints(page: Path) -> None:
    """A command without output is one that prints nothing, or it was forgotten."""
    steps = read_steps(page.read_text())
    silent = [step.command for step in steps if not step.expected]
    assert all(command.startswith(("export ", "rm ")) or " > " in command for command in silent), silent
    assert steps[0].command == FIRST_TERMINAL


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("train-2jst5   1/1   3s", "train-x7bqz  1/1  11s"),
        ("default   Active   79s", "default   Active   2m30s"),
        ("router-5txnwjjn9g-mnkgq   z0", "router-cp42tzkrqr-lrkk4   z0"),
        ("uid: e08f26f2-69a9-4595-a071-bbd0441b2074", "uid: 00000000-69a9-4595-a071-bbd0441b2074"),
        ('resourceVersion: "57"', 'resourceVersion: "58"'),
        ('  time: "2026-11-15T20:18:24Z"', '  time: "2027-01-15T20:18:24Z"'),
    ],
)
def test_what_varies_does_not_count(one: str, other: str) -> None:
    assert settled(one) == settled(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("z0-b0-r0-n0   Ready", "z0-b0-r0-n1   Ready"),
        ("train   4/4", "train   3/4"),
        ("cpu: 8", "cpu: 9"),
        ("pod/a created", "pod/a configured"),
        ("router   2   N/A   1   2s", "router   2   N/A   0   2s"),
    ],
)
def test_what_matters_counts(one: str, other: str) -> None:
    assert settled(one) != settled(other)


def test_dots_stand_for_any_lines() -> None:
    assert fits(["a", "...", "d"], ["a", "b", "c", "d"])
    assert fits(["a", "...", "d"], ["a", "d"])
    assert not fits(["a", "...", "d"], ["a", "b", "c"])
    assert not fits(["a", "d"], ["a", "b", "d"])
    assert not fits([], ["a"])
