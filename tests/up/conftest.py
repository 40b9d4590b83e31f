"""`spinney up` for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster_kit.real_programs import real_programs
from stack_kit.preloaded import Preloaded, preloaded
from stack_kit.spinney import Spinney, spinney

Up = Callable[..., Spinney]


@pytest.fixture(scope="session")
def kubectl_program() -> Path:
    return real_programs().kubectl


@pytest.fixture
def up(tmp_path: Path, kubectl_program: Path) -> Iterator[Up]:
    """Start `spinney up` with these arguments; every start of a test has a directory of its own."""
    with ExitStack() as stack:
        count = 0

        def start(*arguments: str) -> Spinney:
            nonlocal count
            count += 1
            return stack.enter_context(spinney(tmp_path / f"up{count}", *arguments, kubectl=kubectl_program))

        yield start


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preloaded]:
    """For commands that run to their end."""
    with preloaded(tmp_path_factory.mktemp("commands")) as found:
        yield found
