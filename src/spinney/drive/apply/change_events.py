"""What users see about the changes made for an object: events on created, deleted and refused objects; `lastErrors`.

Builds values only: nothing in here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kube_apimachinery.times import format_time, seconds
from spinney.api.changes import Change, Create, Delete, EmitEvent, Json, Patch, Resource, SetStatus, Target
from spinney.api.kinds.podclique import LastError
from spinney.api.meta import ObjectMeta
from spinney.drive.client.errors import ClientError, Policy, Status

_GANG = "PodGang"
_REPORTED_KINDS = ("Pod", "PodClique", "PodCliqueScalingGroup", _GANG, "ComputeDomain")
_REPORTED_UPDATES = ("PodClique", "PodCliqueScalingGroup", _GANG)
_MOST = 10
_MESSAGE_LIMIT = 1024
_FRESH_S = 60.0


@dataclass(frozen=True, slots=True)
class InvolvedObject:
    """The object that changes are made for, with the `lastErrors` in its status."""

    resource: Resource
    metadata: ObjectMeta
    last_errors: tuple[LastError, ...] = ()

    @property
    def target(self) -> Target:
        return self.resource.of(self.metadata)


@dataclass(frozen=True, slots=True)
class Success:
    """A change that was applied; `uid` is that of the object it created or deleted."""

    change: Change
    uid: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that the server refused."""

    change: Change
    status: Status

    @property
    def words(self) -> str:
        """A message that is the same at every attempt: a generated name is replaced by its prefix."""
        found, name = self.status.message or self.status.reason, self.change.target.name
        return found.replace(name, _stable(self.change)) if name else found


def successes(about: InvolvedObject, made: Sequence[Success]) -> Iterator[EmitEvent]:
    """One event for all created objects of a kind, and one for all deleted ones."""
    kinds = sorted((each for each in made if _reason(each.change)), key=lambda each: _reason(each.change))
    for reason, group in groupby(kinds, lambda each: _reason(each.change)):
        alike = list(group)
        occasion = ",".join(sorted(each.uid for each in alike))
        message = _sentence([each.change for each in alike])
        yield EmitEvent(about.target, about.metadata.uid, reason, message, occasion)


def failure(refusal: Refusal, about: InvolvedObject | None) -> EmitEvent | None:
    """A warning event about a refused change, once for each reason. None if the change has no owner or no reason."""
    owner = _owner(refusal.change, about)
    reason = _failed(refusal.change)
    if owner is None or not reason:
        return None
    target, uid = owner
    return EmitEvent(target, uid, reason, refusal.words, "", warning=True)


def is_remembered(refusal: Refusal, about: InvolvedObject | None) -> bool:
    """Whether `lastErrors` already holds this failure from an earlier attempt: it does not go away by itself."""
    return about is not None and any(each.code == _code(refusal.change) for each in about.last_errors)


def remembered(about: InvolvedObject, refusals: Sequence[Refusal], error: Exception, now_s: float) -> SetStatus | None:
    """The status write with `lastErrors` after a failed reconcile; None if they are recorded or the error is transient.

    If only the wording changed it is written at most every `_FRESH_S`: the write itself triggers another reconcile,
    which fails again.
    """
    found = _errors(refusals, error)
    known = {each.code: each.description for each in about.last_errors}
    since_s = max((seconds(each.observed_at) for each in about.last_errors), default=0.0)
    if not found or found == known or (found.keys() == known.keys() and now_s - since_s < _FRESH_S):
        return None
    last_errors_now: list[Json] = [
        {"code": code, "description": text, "observedAt": format_time(now_s)} for code, text in found.items()
    ]
    return SetStatus(about.target, {"lastErrors": last_errors_now}, about.metadata.uid, "")


def forgotten(about: InvolvedObject) -> SetStatus | None:
    """The status write that clears `lastErrors` after a successful reconcile; None if there are none."""
    return SetStatus(about.target, {"lastErrors": None}, about.metadata.uid, "") if about.last_errors else None


def _errors(refusals: Sequence[Refusal], error: Exception) -> dict[str, str]:
    if refusals:
        first: dict[str, str] = {}
        for each in refusals:
            first.setdefault(_code(each.change), f"{_title(each.change)}: {each.words}"[:_MESSAGE_LIMIT])
        return dict(list(first.items())[:_MOST])
    policy = error.policy if isinstance(error, ClientError) else Policy.OUR_BUG
    if policy in (Policy.RETRY_NOW, Policy.RETRY_LATER):
        return {}
    return {"ERR_RECONCILE": (str(error) or repr(error))[:_MESSAGE_LIMIT]}


def _code(change: Change) -> str:
    verbs = {Patch: "UPDATE", SetStatus: "UPDATE_STATUS_OF", EmitEvent: "TELL"}
    verb = verbs.get(type(change)) or type(change).__name__.upper()
    return f"ERR_{verb}_{change.target.resource.kind.upper()}"


def _title(change: Change) -> str:
    target = change.target
    place = f"{target.namespace}/" if target.namespace else ""
    return f"{target.resource.kind} {place}{_stable(change)}"


def _stable(change: Change) -> str:
    made = change.body["metadata"] if isinstance(change, Create) else {}
    prefix: str = made.get("generateName") or ""
    return f"{prefix}*" if prefix else change.target.name


def _reason(change: Change) -> str:
    kind = change.target.resource.kind
    if kind not in _REPORTED_KINDS:
        return ""
    if isinstance(change, Create):
        return f"{kind}CreateOrUpdateSuccessful" if kind == _GANG else f"{kind}CreateSuccessful"
    return f"{kind}DeleteSuccessful" if isinstance(change, Delete) else ""


def _failed(change: Change) -> str:
    kind = change.target.resource.kind
    match change:
        case Create():
            return f"{kind}CreateOrUpdateFailed" if kind == _GANG else f"{kind}CreateFailed"
        case Delete():
            return f"{kind}DeleteFailed"
        case Patch() if kind in _REPORTED_UPDATES:
            return f"{kind}CreateOrUpdateFailed"
        case _:
            return ""


def _sentence(changes: Sequence[Change]) -> str:
    """The message in the wording of the upstream Grove operator, which users know."""
    kind, came = changes[0].target.resource.kind, isinstance(changes[0], Create)
    names = sorted(_named(each.target, kind) for each in changes)
    many = f"{kind}{'s' if len(names) > 1 else ''}"
    listed = _listed(names)
    if kind == "Pod":
        return f"{'Created' if came else 'Deleted'} {many}: {listed}"
    if kind == _GANG:
        return f"{'Created/Updated' if came else 'Deleted'} {many} {listed}"
    return f"{many} {listed} {'created' if came else 'deleted'} successfully"


def _named(target: Target, kind: str) -> str:
    return target.name if kind == "Pod" else f"{target.namespace}/{target.name}"


def _listed(names: Iterable[str]) -> str:
    """As many as fit into the message of an event."""
    found = list(names)
    text, shown = found[0], 1
    while shown < len(found) and len(text) + len(found[shown]) < _MESSAGE_LIMIT - 128:
        text, shown = f"{text}, {found[shown]}", shown + 1
    return text if shown == len(found) else f"{text} and {len(found) - shown} more"


def _owner(change: Change, about: InvolvedObject | None) -> tuple[Target, str] | None:
    if about is not None:
        return about.target, about.metadata.uid
    owners = change.body["metadata"].get("ownerReferences") if isinstance(change, Create) else None
    if not owners:
        return None
    group, _, version = owners[0]["apiVersion"].rpartition("/")
    resource = Resource(group, version, "", owners[0]["kind"])
    return resource.at(owners[0]["name"], change.target.namespace), owners[0]["uid"]
