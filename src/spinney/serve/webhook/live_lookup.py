"""Rules that look at other objects, over a cluster that can only be read by waiting.

Rules cannot wait. They are asked with what has been read so far; where they miss something it is read, and they are
asked again. They are pure, so that the last answer is the one they would have given at once. What cannot be read is
told to the rule that asked for it; a rule that has no answer to that leaves the review without a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kube_apimachinery.admission import AdmissionRequest, Lookup, Object, Unreadable, Verdict

MAX_READS = 16
"""No rule of ours needs a tenth of it."""


class Reader(Protocol):
    """The cluster, read live. It raises an error of its own for what it cannot read."""

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None: ...

    async def list(self, group: str, plural: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]: ...


Ask = Callable[[AdmissionRequest, Lookup], Verdict]


class RuleFailedError(RuntimeError):
    """A rule raised what no rule should: our bug, and not the object's."""


class TooManyReadsError(RuleFailedError):
    """A rule that never has enough: our bug."""


class _MissingError(Exception):
    """Something has to be read first."""

    def __init__(self, key: _Key) -> None:
        self.key = key


class _FailedError(Unreadable):
    """It was tried, and this came of it."""

    def __init__(self, failure: Exception) -> None:
        super().__init__(str(failure))
        self.failure = failure


_Key = tuple[str, ...]


class _Known:
    """What has been read for one request; asking for anything else ends the attempt."""

    def __init__(self) -> None:
        self.objects: dict[_Key, Object | None] = {}
        self.lists: dict[_Key, Sequence[Object]] = {}
        self.failures: dict[_Key, Exception] = {}

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Object | None:
        key = ("get", group, plural, namespace, name)
        if key not in self.objects:
            raise self._lacking(key)
        return self.objects[key]

    def listing(
        self, group: str, plural: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[Object]:
        chosen = sorted((labels or {}).items())
        key = ("list", group, plural, namespace, *(part for pair in chosen for part in pair))
        if key not in self.lists:
            raise self._lacking(key)
        return self.lists[key]

    def _lacking(self, key: _Key) -> Exception:
        failure = self.failures.get(key)
        return _MissingError(key) if failure is None else _FailedError(failure)

    async def read(self, key: _Key, reader: Reader) -> None:
        verb, group, plural, namespace, *rest = key
        try:
            if verb == "get":
                self.objects[key] = await reader.get(group, plural, namespace, rest[0])
            else:
                labels = dict(zip(rest[::2], rest[1::2], strict=True))
                self.lists[key] = await reader.list(group, plural, namespace, labels)
        except Exception as error:
            self.failures[key] = error


async def ask(rule: Ask, request: AdmissionRequest, reader: Reader) -> Verdict:
    """The verdict of a rule, with everything it looked at read live and once.

    Raises the reader's error for what cannot be read, and RuleFailedError for a mistake of ours.
    """
    known = _Known()
    for _ in range(MAX_READS):
        try:
            return rule(request, known)
        except _MissingError as missing:
            key = missing.key
        except _FailedError as failed:
            raise failed.failure from None
        except Exception as error:
            raise RuleFailedError(f"{type(error).__name__}: {error}") from error
        await known.read(key, reader)
    raise TooManyReadsError(f"{request.operation} {request.resource} {request.name}: more than {MAX_READS} reads")
