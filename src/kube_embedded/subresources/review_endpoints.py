"""Requests that ask and store nothing: may I, who am I, whose token is this; and tokens for service accounts."""

from __future__ import annotations

from typing import Any

from kube_apimachinery.field_errors import invalid as invalid_value
from kube_embedded.access import reviews
from kube_embedded.access.rbac import Authorizer
from kube_embedded.access.tokens import ServiceAccountTokens
from kube_embedded.base.errors import invalid, no_such_path
from kube_embedded.base.generated_metadata import new_uid, rfc3339
from kube_embedded.base.identity import Authenticator
from kube_embedded.base.resource import Object, Resource
from kube_embedded.requests.kernel import Call, Kernel

_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
_DEFAULT_LIFE_S = 3600
_MIN_LIFE_S = 600


class ReviewEndpoints:
    """Answers by the rules and tokens that the server itself uses."""

    def __init__(
        self,
        kernel: Kernel,
        authorizer: Authorizer,
        authenticator: Authenticator,
        tokens: ServiceAccountTokens | None,
    ) -> None:
        self._kernel = kernel
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._tokens = tokens

    @staticmethod
    def answers(resource: Resource) -> bool:
        return resource.group in _GROUPS

    def review(self, call: Call, review: Object) -> Object:
        review = {"kind": call.resource.kind, "apiVersion": call.resource.group_version, **review}
        who = call.identity
        match call.resource.kind:
            case "SelfSubjectAccessReview":
                return reviews.self_subject_access_review(review, who, self._authorizer)
            case "SubjectAccessReview":
                return reviews.subject_access_review(review, self._authorizer)
            case "LocalSubjectAccessReview":
                return reviews.local_subject_access_review(review, call.target.namespace, self._authorizer)
            case "SelfSubjectRulesReview":
                return reviews.self_subject_rules_review(review, who, self._authorizer)
            case "SelfSubjectReview":
                meta = {**(review.get("metadata") or {}), "creationTimestamp": self._kernel.timestamp()}
                return reviews.self_subject_review({**review, "metadata": meta}, who)
            case "TokenReview":
                return reviews.token_review(review, self._authenticator, self._tokens, self._kernel.clock.now())
            case _:
                raise no_such_path()

    def issue(self, call: Call, request: Object) -> Object:
        """A token for the service account of the path, by its TokenRequest."""
        account = self._kernel.existing(call.resource, call.target.namespace, call.target.name)
        if self._tokens is None:
            raise no_such_path()
        spec: dict[str, Any] = request.get("spec") or {}
        seconds = spec.get("expirationSeconds") or _DEFAULT_LIFE_S
        if seconds < _MIN_LIFE_S:
            error = invalid_value("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
            raise invalid("authentication.k8s.io", "TokenRequest", call.target.name, [error])
        issued = self._tokens.issue(
            account.namespace,
            account.name,
            account.uid,
            token_id=new_uid(self._kernel.dice),
            now_s=self._kernel.clock.now(),
            seconds=seconds,
            audiences=tuple(spec.get("audiences") or ()),
        )
        status = {"token": issued.token, "expirationTimestamp": rfc3339(issued.expires_s)}
        meta = {
            "name": account.name,
            "namespace": account.namespace,
            "uid": account.uid,
            "creationTimestamp": self._kernel.timestamp(),
        }
        audiences = list(spec.get("audiences") or self._tokens.audiences)
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": meta,
            "spec": {"boundObjectRef": None, **spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": status,
        }
