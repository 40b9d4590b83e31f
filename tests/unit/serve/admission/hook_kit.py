"""A webhook that answers as told, and requests to ask it about."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kube_apimachinery import tls
from kube_apimachinery.admission import AdmissionRequest
from kube_embedded.admission.chain import AdmissionChain

AUTHORITY = tls.create_authority("webhooks", now_s=time.time())
STRANGER = tls.create_authority("somebody else", now_s=time.time())
LEAF = tls.issue(AUTHORITY, ["127.0.0.1", "hook.tools.svc"], now_s=time.time())
NAMESPACES = {"shop": {"env": "prod"}, "lab": {"env": "test"}}


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def patch_of(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patch": encoded(json.dumps(operations).encode()), "patchType": "JSONPatch"}


@dataclass
class Hook:
    """Answers per path; what was asked is kept. An answer is a response's fields, or a function of the review."""

    port: int = 0
    answers: dict[str, Any] = field(default_factory=dict)
    reviews: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        return [path for path, _ in self.reviews]

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}/{path}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        review = json.loads(await request.read())
        self.reviews.append((path, review))
        answer = self.answers.get(path, {})
        if callable(answer):
            answer = answer(review)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, web.Response):
            return answer
        response = {"uid": review["request"]["uid"], "allowed": True, **answer}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    def webhook(self, path: str, **changes: Any) -> dict[str, Any]:
        return {
            "name": f"{path}.example.com",
            "clientConfig": {"url": self.url(path), "caBundle": encoded(AUTHORITY.certificate_pem)},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **changes,
        }


class Expression:
    """Stands for a compiled condition: the expression names what happens."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def evaluate(self, bindings: Mapping[str, Any]) -> Any:
        if self._expression.startswith("error"):
            raise ValueError("no such key: zone")
        if self._expression.startswith("has "):
            return self._expression.split()[1] in (bindings["object"]["metadata"].get("labels") or {})
        return {"true": True, "false": False}[self._expression]


def compile_expression(expression: str, names: Sequence[str]) -> Expression:
    return Expression(expression)


def lookup(group: str, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
    if plural == "namespaces" and name in NAMESPACES:
        return {"metadata": {"name": name, "labels": NAMESPACES[name]}}
    return None


MakeChain = Callable[..., AdmissionChain]


def request_of(**changes: Any) -> AdmissionRequest:
    """A new ConfigMap in the shop, with changes."""
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prices", "namespace": "shop"},
        "data": {"apple": "1"},
    }
    fields: dict[str, Any] = {
        "uid": "",
        "operation": "CREATE",
        "group": "",
        "version": "v1",
        "kind": "ConfigMap",
        "resource": "configmaps",
        "subresource": "",
        "namespace": "shop",
        "name": "prices",
        "user": "alice",
        "groups": ("devs", "system:authenticated"),
        "object": obj,
        "old_object": None,
        **changes,
    }
    return AdmissionRequest(**fields)
