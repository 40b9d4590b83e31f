"""The exchange format read: text to plain values, plain values to a `Problem`."""

from spinney.api.placement.reading.problem import read_problem
from spinney.api.placement.reading.text import PROBLEM, decode_json, decode_text, line_of
from spinney.api.placement.reading.unreadable import Unreadable

__all__ = ["PROBLEM", "Unreadable", "decode_json", "decode_text", "line_of", "read_problem"]
