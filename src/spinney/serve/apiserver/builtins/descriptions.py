"""One-line descriptions of the built-in kinds and of the fields met most, for `kubectl explain`.

Keys are component names, or `component#field`. The words are the project's own.
"""

from __future__ import annotations

DESCRIPTIONS: dict[str, str] = {}
