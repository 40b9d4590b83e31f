"""Versions of a kind converted for an API server: ConversionReviews as a page of the webhook.

One object that cannot be converted fails its review as a whole, as the API asks for; nothing is ever made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import bad_request
from kube_embedded.base.http import HttpReply, HttpRequest, json_reply
from spinney.api.documents import BODY, DocumentError, read_json_as
from spinney.api.dynamo_conversion import ConversionError, convert

CONVERT = "/convert"
_V1 = "apiextensions.k8s.io/v1"

Convert = Callable[[Object, str], Object]


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[Object] = msgspec.field(default_factory=list)


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


async def converted(request: HttpRequest) -> HttpReply:
    """The page."""
    return json_reply(answer(request.body, convert))


def answer(body: bytes, between: Convert) -> dict[str, Any]:
    """The review with its response; raises for what is no review."""
    try:
        review = read_json_as(body, _Review, limits=BODY)
    except DocumentError as error:
        raise bad_request(f"not a ConversionReview: {error}") from error
    if (review.api_version, review.kind) != (_V1, "ConversionReview"):
        raise bad_request(f"found {review.api_version} {review.kind}, expected {_V1} ConversionReview")
    asked = review.request
    response: dict[str, Any] = {"uid": asked.uid}
    try:
        found = [between(obj, asked.desired_api_version) for obj in asked.objects]
        response |= {"convertedObjects": found, "result": {"status": "Success"}}
    except (ConversionError, RecursionError) as error:
        response |= {"convertedObjects": [], "result": {"status": "Failure", "message": str(error)}}
    return {"apiVersion": _V1, "kind": "ConversionReview", "response": response}
