"""The programs of a real control plane for a test that needs them.

Without them it is skipped, loudly; in CI that is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from spinney.sim.kubernetes.assets import Assets, AssetsUnavailable, find_or_build_assets, find_or_build_helm

T = TypeVar("T")


def real_programs() -> Assets:
    return _found(find_or_build_assets)


def helm_program() -> Path:
    return _found(find_or_build_helm)


def _found(find: Callable[[], T]) -> T:
    try:
        return find()
    except AssetsUnavailable as unavailable:
        reason = f"no real kube-apiserver and kubectl: {unavailable}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def programs_of(kind: str) -> Assets | None:
    """None: the embedded server needs none."""
    return real_programs() if kind == "real" else None
