"""User errors, as a sentence that names the object, the field, what was found and what is allowed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class UserError:
    """An error that keeps the pod without a group until the user corrects it."""

    sentence: str


class InvalidFieldError(Exception):
    """A user error as an exception, raised while a group is derived."""

    def __init__(self, subject: object, field: str, found: Any, expected: str) -> None:
        super().__init__(sentence(subject, field, found, expected))


def sentence(subject: object, field: str, found: Any, expected: str) -> str:
    """`Job default/train: metadata.annotations[x]: found "rak", expected ...`."""
    shown = "none" if found is None else json.dumps(found, ensure_ascii=False, default=str)
    return f"{subject}: {field}: found {shown}, expected {expected}"


def annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"


def label(key: str) -> str:
    return f"metadata.labels[{key}]"
