"""The exchange format read: text to plain values, plain values to a `Problem`."""

from spinney.api.placement.reading.fields import Unreadable
from spinney.api.placement.reading.problem import PROBLEM, decode_json, decode_text, line_of, read_problem

__all__ = ["PROBLEM", "Unreadable", "decode_json", "decode_text", "line_of", "read_problem"]
