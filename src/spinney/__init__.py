"""Topology-aware gang scheduling for Kubernetes GPU clusters.

A library of three functions, `place`, `plan` and `explain`; what they need is imported when one is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spinney.version import VERSION as __version__

if TYPE_CHECKING:
    from spinney.whatif.library import (
        ClientError,
        PlanResult,
        Result,
        WorkloadExplanation,
        WorkloadNotFound,
        explain,
        place,
        plan,
    )

__all__ = [
    "ClientError",
    "PlanResult",
    "Result",
    "WorkloadExplanation",
    "WorkloadNotFound",
    "__version__",
    "explain",
    "place",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("spinney.whatif.library"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
