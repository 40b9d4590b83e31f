"""The programs of a real control plane for a test that needs them.

Without them it is skipped, loudly; in CI that is a failure.
"""

from __future__ import annotations

import os

import pytest

from spinney.sim.kubernetes.assets import Assets, AssetsUnavailable, find_or_build_assets


def real_programs() -> Assets:
    try:
        return find_or_build_assets()
    except AssetsUnavailable as unavailable:
        reason = f"no real kube-apiserver and kubectl: {unavailable}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def programs_of(kind: str) -> Assets | None:
    """None: the embedded server needs none."""
    return real_programs() if kind == "real" else None
