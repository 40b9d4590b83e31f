"""The exchange format written: a `Result` or a `Problem` to plain values."""

from spinney.api.placement.writing.problem import write_problem
from spinney.api.placement.writing.result import write_result

__all__ = ["write_problem", "write_result"]
