"""Attacks as rows of a table: what is sent, and whether it is refused, with which words, or accepted and harmless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from attack.harm import PAGES, Before, check_unharmed
from attack.tenants import Attempt
from cluster_kit.server import Reply

Send = Callable[[Attempt], Reply]
MARKS = [pytest.mark.real, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Row:
    """`code` 0: accepted, and harmless. `words`: what a refusal says. `pages`: which ones are looked at afterwards."""

    title: str
    send: Send
    code: int = 0
    words: str = ""
    pages: tuple[str, ...] = PAGES


class Table:
    """Functions become rows: the title of a row is the docstring of the function that sends it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def refused(self, code: int, words: str) -> Callable[[Send], Send]:
        return lambda send: self._add(send, code, words, PAGES)

    def harmless(self, *pages: str) -> Callable[[Send], Send]:
        return lambda send: self._add(send, 0, "", (*PAGES, *pages))

    def _add(self, send: Send, code: int, words: str, pages: tuple[str, ...]) -> Send:
        self.rows.append(Row((send.__doc__ or "").strip().rstrip("."), send, code, words, pages))
        return send

    def parameters(self) -> list[object]:
        return [pytest.param(row, id=row.title) for row in self.rows]


def carry_out(row: Row, attempt: Attempt, before: Before) -> None:
    reply = row.send(attempt)
    if row.code:
        reply.refused(row.code, None, row.words)
    else:
        reply.ok()
    check_unharmed(attempt.found, before, row.pages)
