"""Clients that write to a server until it dies under them, and what each of them was told.

Never guesses: a write without an answer is remembered as one that may or may not have happened.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from dataclasses import dataclass, field
from typing import Any

MAPS = "/api/v1/namespaces/default/configmaps"
FILLING = "x" * 300


@dataclass(frozen=True, slots=True)
class State:
    """One object as a client knows it; a version of 0 means that it is not there."""

    version: int = 0
    uid: str = ""
    counter: int = -1

    @property
    def exists(self) -> bool:
        return self.version > 0


ABSENT = State()


@dataclass(slots=True)
class Story:
    """Everything one client was told about its own objects."""

    known: dict[str, State] = field(default_factory=dict)
    """The last acknowledged state of each object."""
    in_doubt: dict[str, int] = field(default_factory=dict)
    """The counter that an unanswered write carried; -1 for a deletion."""
    highest: int = 0
    acknowledged: int = 0


def state_of(obj: dict[str, Any]) -> State:
    meta = obj["metadata"]
    return State(int(meta["resourceVersion"]), meta["uid"], int(obj["data"]["counter"]))


class Writer(threading.Thread):
    """Creates, updates and deletes objects of its own, one request at a time, until the connection breaks."""

    def __init__(self, port: int, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.failure: AssertionError | None = None
        self.story = Story()
        self._number = number
        self._dice = random.Random(f"{seed}/{number}")
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def run(self) -> None:
        counter = 0
        try:
            while True:
                counter += 1
                self._write(f"w{self._number}-{self._dice.randrange(25)}", counter)
        except (OSError, http.client.HTTPException):
            self._connection.close()
        except AssertionError as error:
            self.failure = error

    def _write(self, name: str, counter: int) -> None:
        before = self.story.known.get(name, ABSENT)
        deletes = before.exists and self._dice.random() < 0.3
        self.story.in_doubt[name] = -1 if deletes else counter
        after = self._take_away(name) if deletes else self._put(name, counter, before)
        self.story.known[name] = after
        del self.story.in_doubt[name]
        self.story.acknowledged += 1
        self.story.highest = max(self.story.highest, after.version)

    def _take_away(self, name: str) -> State:
        self._ask("DELETE", f"{MAPS}/{name}", None, 200)
        return ABSENT

    def _put(self, name: str, counter: int, before: State) -> State:
        meta: dict[str, Any] = {"name": name}
        body = {"metadata": meta, "data": {"counter": str(counter), "filling": FILLING}}
        if not before.exists:
            return state_of(self._ask("POST", MAPS, body, 201))
        meta |= {"resourceVersion": str(before.version), "uid": before.uid}
        return state_of(self._ask("PUT", f"{MAPS}/{name}", body, 200))

    def _ask(self, method: str, path: str, body: Any, expected: int) -> Any:
        raw = json.dumps(body) if body is not None else None
        self._connection.request(method, path, raw, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        content = json.loads(answer.read())
        assert answer.status == expected, content
        return content
