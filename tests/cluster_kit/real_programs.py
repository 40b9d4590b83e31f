"""The programs of a real control plane, and others that are built as they are, for a test that needs them.

Without them it is skipped, loudly; in CI that is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from spinney.sim.kubernetes.assets import (
    VERSION,
    Assets,
    AssetsUnavailable,
    Program,
    find_or_build_assets,
    find_or_build_helm,
    find_or_build_program,
)
from spinney.sim.kubernetes.node.cluster import NodePrograms, find_or_build_programs

T = TypeVar("T")

CLIENT_GO = Program(
    name="client-go-conformance",
    version=VERSION,
    module=Path(__file__).parent.parent / "clients" / "conformance",
    command=".",
    linker_flags="-s -w",
    cost="2 minutes of processor time",
)
NO_REAL = "no real kube-apiserver"
NO_CLIENT_GO = "no client-go"
NO_NODE = "no real node"


def real_programs() -> Assets:
    return found(find_or_build_assets)


def helm_program() -> Path:
    return found(find_or_build_helm)


def node_programs() -> NodePrograms:
    return found(find_or_build_programs, NO_NODE)


def client_go_program() -> Path:
    return found(lambda: find_or_build_program(CLIENT_GO), NO_CLIENT_GO)


def found(find: Callable[[], T], without: str = f"{NO_REAL} and kubectl") -> T:
    try:
        return find()
    except AssetsUnavailable as unavailable:
        reason = f"{without}: {unavailable}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def programs_of(kind: str) -> Assets | None:
    """None: the embedded server needs none."""
    return real_programs() if kind == "real" else None
