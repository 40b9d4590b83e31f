"""kubectl in one namespace of one server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from cluster_kit.space import Space

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(space: Space) -> Kubectl:
    """Run kubectl in the test's namespace; gives what it printed."""

    def run(*arguments: str, **options: Any) -> str:
        return space.server.kubectl("-n", space.namespace, *arguments, **options).stdout

    return run


@pytest.fixture
def refused(space: Space) -> Kubectl:
    """Run kubectl where it must fail; gives what it complained of."""

    def run(*arguments: str, code: int = 1, **options: Any) -> str:
        done: subprocess.CompletedProcess[str] = space.server.kubectl(
            "-n", space.namespace, *arguments, check=False, **options
        )
        assert done.returncode == code, f"expected exit code {code}, got {done.returncode}: {done.stdout}{done.stderr}"
        return done.stderr

    return run
