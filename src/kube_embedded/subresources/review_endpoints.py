"""Requests that ask and store nothing: may I, may they, who am I, whose token is this; and tokens for service accounts.

Each takes the object that was posted and returns it with its status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube_apimachinery.admission import Object
from kube_apimachinery.field_errors import FieldError
from kube_apimachinery.field_errors import invalid as invalid_field
from kube_apimachinery.field_errors import invalid as invalid_value
from kube_apimachinery.times import format_time
from kube_embedded.access.attributes import Attributes
from kube_embedded.access.rbac import Authorizer, Rule, quoted
from kube_embedded.access.tokens import Authentication, ServiceAccountTokens
from kube_embedded.base import errors
from kube_embedded.base.errors import bad_request, invalid, no_such_path
from kube_embedded.base.generated_metadata import new_uid
from kube_embedded.base.identity import Authenticator, Identity
from kube_embedded.base.resource import Resource
from kube_embedded.requests.kernel import Call, Kernel

_GROUP = "authorization.k8s.io"


def self_subject_access_review(review: Object, who: Identity, authorizer: Authorizer) -> Object:
    spec = review.get("spec") or {}
    _refuse(_spec_errors(spec) + _metadata_errors(review, ()))
    return _access(review, who, spec, authorizer)


def subject_access_review(review: Object, authorizer: Authorizer) -> Object:
    spec = review.get("spec") or {}
    _refuse(_spec_errors(spec) + _subject_errors(spec) + _metadata_errors(review, ()))
    return _access(review, _subject(spec), spec, authorizer)


def local_subject_access_review(review: Object, namespace: str, authorizer: Authorizer) -> Object:
    spec = review.get("spec") or {}
    found = _spec_errors(spec) + _subject_errors(spec) + _metadata_errors(review, ("namespace",))
    own = (review.get("metadata") or {}).get("namespace", "")
    asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if spec.get("resourceAttributes") is not None and asked != own:
        found.append(invalid_field("spec.resourceAttributes.namespace", asked, "must match metadata.namespace"))
    if spec.get("nonResourceAttributes") is not None:
        shown = _shown(spec["nonResourceAttributes"])
        found.append(invalid_field("spec.nonResourceAttributes", shown, "disallowed on this kind of request"))
    _refuse(found)
    if own != namespace:
        raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    return _access(review, _subject(spec), spec, authorizer)


def self_subject_rules_review(review: Object, who: Identity, authorizer: Authorizer) -> Object:
    namespace = (review.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    rules, missing = authorizer.rules_for(who, namespace)
    status: Object = {
        "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
        "nonResourceRules": [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)} for rule in rules if rule.paths
        ],
        "incomplete": False,
    }
    if missing:
        status["evaluationError"] = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
    return {"kind": review["kind"], "apiVersion": review["apiVersion"], "metadata": {}, "spec": {}, "status": status}


def self_subject_review(review: Object, who: Identity) -> Object:
    return {**review, "metadata": _metadata(review), "status": {"userInfo": user_info(who)}}


def token_review(
    review: Object, authenticator: Authenticator, accounts: ServiceAccountTokens | None, now_s: float
) -> Object:
    """A service account's token is good for its own audiences, every other token for those of the server."""
    spec = review.get("spec") or {}
    token = spec.get("token") or ""
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    own: Sequence[str] = accounts.audiences if accounts else ()
    wanted = spec.get("audiences") or list(own)
    found = accounts.review(token, wanted, now_s) if accounts else None
    if found is None:
        who = authenticator.find(token, now_s)
        common = [audience for audience in wanted if audience in own]
        found = (who, common) if who is not None and (common or not wanted) else None
    answer = {**review, "metadata": _metadata(review)}
    if found is None:
        answer["status"] = {"user": {}, "error": _token_error(accounts.audiences_of(token) if accounts else [], wanted)}
    else:
        answer["status"] = {"authenticated": True, "user": user_info(found[0]), "audiences": found[1]}
    return answer


def _token_error(issued_for: Sequence[str], wanted: Sequence[str]) -> str:
    if not issued_for or set(issued_for) & set(wanted):
        return "invalid bearer token"
    targets = f"token audiences {quoted(issued_for)} is invalid for the target audiences {quoted(wanted)}"
    return f"[invalid bearer token, {targets}]"


def user_info(who: Identity) -> Object:
    shown: Object = {"username": who.name}
    if who.uid:
        shown["uid"] = who.uid
    if who.groups:
        shown["groups"] = list(who.groups)
    if who.extra:
        shown["extra"] = {key: list(values) for key, values in who.extra.items()}
    return shown


def _access(review: Object, who: Identity, spec: Mapping[str, Any], authorizer: Authorizer) -> Object:
    allowed, reason = authorizer.allowed(who, _attributes(spec))
    status: Object = {"allowed": allowed}
    if reason:
        status["reason"] = reason
    return {**review, "metadata": _metadata(review), "status": status}


def _attributes(spec: Mapping[str, Any]) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    asked = spec.get("resourceAttributes") or {}
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{field: asked.get(field) or "" for field in fields})


def _subject(spec: Mapping[str, Any]) -> Identity:
    return Identity(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()))


def _spec_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        return [invalid_field("spec.nonResourceAttributes", _shown(path), text)]
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid_field("spec.resourceAttributes", None, text)]
    return []


def _shown(path: Mapping[str, str]) -> dict[str, str]:
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _subject_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid_field("spec.user", "", "at least one of user or group must be specified")]


def _metadata_errors(review: Object, permitted: tuple[str, ...]) -> list[FieldError]:
    kept = (*permitted, "managedFields", "creationTimestamp")
    if not any(value for key, value in (review.get("metadata") or {}).items() if key not in kept):
        return []
    text = "must be empty except for namespace" if permitted else "must be empty"
    return [invalid_field("metadata", review["metadata"], text)]


def _refuse(found: list[FieldError]) -> None:
    """Kubernetes does not name the kind here, and clients see the empty name."""
    if found:
        refused = errors.invalid(_GROUP, "", "", found)
        del (refused.details or {})["kind"]
        raise refused


def _metadata(review: Object) -> Object:
    return dict(review.get("metadata") or {})


def _resource_rule(rule: Rule) -> Object:
    shown: Object = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    if rule.names:
        shown["resourceNames"] = list(rule.names)
    return shown


_GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
_DEFAULT_LIFE_S = 3600
_MIN_LIFE_S = 600


class ReviewEndpoints:
    """Answers by the rules and tokens that the server itself uses."""

    def __init__(
        self,
        kernel: Kernel,
        authorizer: Authorizer,
        authentication: Authentication,
    ) -> None:
        self._kernel = kernel
        self._authorizer = authorizer
        self._authenticator = authentication.callers
        self._tokens = authentication.issuer

    @staticmethod
    def answers(resource: Resource) -> bool:
        return resource.group in _GROUPS

    def review(self, call: Call, review: Object) -> Object:
        review = {"kind": call.resource.kind, "apiVersion": call.resource.group_version, **review}
        who = call.identity
        match call.resource.kind:
            case "SelfSubjectAccessReview":
                return self_subject_access_review(review, who, self._authorizer)
            case "SubjectAccessReview":
                return subject_access_review(review, self._authorizer)
            case "LocalSubjectAccessReview":
                return local_subject_access_review(review, call.target.namespace, self._authorizer)
            case "SelfSubjectRulesReview":
                return self_subject_rules_review(review, who, self._authorizer)
            case "SelfSubjectReview":
                meta = {**(review.get("metadata") or {}), "creationTimestamp": self._kernel.timestamp()}
                return self_subject_review({**review, "metadata": meta}, who)
            case "TokenReview":
                return token_review(review, self._authenticator, self._tokens, self._kernel.clock.now())
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
        status = {"token": issued.token, "expirationTimestamp": format_time(issued.expires_s)}
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
