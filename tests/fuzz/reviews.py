"""What API servers ask the webhook: admission reviews of all operations, and conversions, as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from fuzz.objects import Json, as_version_of
from kube_apimachinery.admission import AdmissionPlugin
from spinney.api.dynamo_conversion import ALPHA, BETA, convert
from spinney.api.operator_configuration import OperatorConfiguration
from spinney.core.admission.dynamo.defaults import DynamoAdmissionSettings
from spinney.core.admission.dynamo.dynamo_admission import DynamoAdmission
from spinney.core.admission.operator_admission import OperatorAdmission
from spinney.core.admission.settings import settings_of
from spinney.serve.webhook.handler import AdmissionUnion, answer, answer_review, read_review

Ask = tuple[str, Callable[[], bool]]
CONVERTED = "dynamographdeployments"


class Reviews:
    def __init__(self, told: OperatorConfiguration) -> None:
        plugins: list[AdmissionPlugin] = [
            OperatorAdmission(settings_of(told)),
            DynamoAdmission(DynamoAdmissionSettings()),
        ]
        self._rules = AdmissionUnion(plugins)

    def of(self, plural: str, found: Json, olds: Sequence[Json]) -> Iterator[Ask]:
        """All that may be asked of an object, by name; an answer says whether any rule had to do with it."""
        yield "CREATE", partial(self._ask, plural, "CREATE", found, None)
        for old in olds:
            yield "UPDATE", partial(self._ask, plural, "UPDATE", found, as_version_of(old, found))
        yield "DELETE", partial(self._ask, plural, "DELETE", None, found)
        if plural == CONVERTED:
            yield "conversion", partial(_convert, found)

    def _ask(self, plural: str, operation: str, new: Json | None, old: Json | None) -> bool:
        asked = read_review(_review(plural, operation, new, old))
        if not self._rules.handles(asked):
            return False
        verdict = self._rules.mutate(asked, NOTHING)
        answer_review(asked, verdict)
        changed = asked.object if verdict.object is None else verdict.object
        asked = msgspec.structs.replace(asked, object=changed)
        answer_review(asked, self._rules.validate(asked, NOTHING))
        return True


def _review(plural: str, operation: str, new: Json | None, old: Json | None) -> bytes:
    seen: Json = new or old or {}
    group, _, version = seen["apiVersion"].rpartition("/")
    named = {"group": group, "version": version}
    metadata = seen["metadata"]
    request = {
        "uid": "u",
        "operation": operation,
        "kind": {**named, "kind": seen["kind"]},
        "resource": {**named, "resource": plural},
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "userInfo": {"username": "ada"},
        "object": new,
        "oldObject": old,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def _convert(found: Json) -> bool:
    """There and back."""
    there = ALPHA if found["apiVersion"] == BETA else BETA
    for between in _converted([found], there):
        _converted([between], found["apiVersion"])
    return True


def _converted(objects: list[Json], desired: str) -> list[Json]:
    request = {"uid": "u", "desiredAPIVersion": desired, "objects": objects}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    found: list[Json] = answer(msgspec.json.encode(body), convert)["response"]["convertedObjects"]
    msgspec.json.encode(found)
    return found


class _Nothing:
    """A cluster in which a rule finds nothing."""

    def __call__(self, group: str, plural: str, namespace: str, name: str, /) -> Json | None:
        return None

    def listing(self, *_: object, **__: object) -> Sequence[Json]:
        return ()


NOTHING = _Nothing()
