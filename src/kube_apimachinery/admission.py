"""The question "may it enter?" and its answer, as values that every layer can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kube_apimachinery.field_errors import FieldError

Object = dict[str, Any]
"""A Kubernetes object as plain JSON values."""


class AdmissionRequest(msgspec.Struct, frozen=True):
    """One write, as an admission rule sees it. The objects must not be changed by the rule."""

    uid: str
    operation: str  # CREATE | UPDATE | DELETE | CONNECT
    group: str
    version: str
    kind: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    groups: tuple[str, ...]
    object: Object | None
    old_object: Object | None
    dry_run: bool = False
    options: Mapping[str, Any] = {}
    user_uid: str = ""
    user_extra: Mapping[str, tuple[str, ...]] = {}


class Verdict(msgspec.Struct, frozen=True):
    """The answer: allowed or not, what is wrong where, what to warn of, and the object as it should be stored."""

    allowed: bool = True
    object: Object | None = None  # the changed object; None means unchanged
    errors: tuple[FieldError, ...] = ()
    message: str = ""  # used where a refusal is not about fields
    code: int = 0  # HTTP status of a refusal; 0 means 422 with field errors, else 403
    warnings: tuple[str, ...] = ()


class Unreadable(Exception):
    """Something that a rule has to look at cannot be read; the text says why."""


class Lookup(Protocol):
    """Read-only view for rules. What it gives must not be changed. It raises `Unreadable` where it cannot tell."""

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Object | None:
        """One object, or None where there is none."""
        ...

    def listing(
        self, group: str, plural: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[Object]:
        """The objects of a namespace (of all, if it is empty) that carry the labels, by namespace and name."""
        ...


class AdmissionPlugin(Protocol):
    """Rules in process. `handles` is asked first and must be cheap.

    It goes by resource, subresource, operation, user, and what the object says in its metadata.
    """

    def handles(self, request: AdmissionRequest) -> bool: ...

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict: ...

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict: ...
