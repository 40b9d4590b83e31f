"""Brings the body of a write into the shape of its kind, and says what did not belong there."""

from __future__ import annotations

from kube_apimachinery.admission import Object
from kube_embedded.base.errors import bad_request
from kube_embedded.base.resource import Resource
from kube_embedded.builtins import decode
from kube_embedded.customresources.metadata import metadata_error
from kube_embedded.requests.kernel import Call
from kube_embedded.schema.pruning import prune


def shape(resource: Resource, obj: Object) -> None:
    """Drop what does not belong and refuse wrong types: for objects that a webhook has changed."""
    if resource.builtin:
        findings = decode.conform(obj, resource.schema_name)
        error = decode.refusal(findings, resource.version, resource.kind, strict=False)
        if error is not None:
            raise error
    else:
        prune(obj, resource.schema)


def conform(call: Call, obj: Object, original: Object | None = None) -> None:
    """Check types and drop unknown fields; by the wish of the client they are an error, a warning or nothing.

    `original`: a stored object some of whose parts it has.
    """
    resource = call.resource
    mode = call.query.get("fieldValidation") or "Warn"
    if resource.builtin:
        findings = decode.conform(obj, resource.schema_name, original)
        error = decode.refusal(findings, resource.version, resource.kind, strict=mode == "Strict")
        if error is not None:
            raise error
        unknown: tuple[str, ...] | list[str] = findings.unknown
    else:
        unknown = prune(obj, resource.schema)
        complaint = metadata_error(obj, resource.schema, original)
        if complaint:
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {complaint}'
            )
        _fill_nulls(obj.get("metadata") or {})
        if unknown and mode == "Strict":
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {listed}"
            )
    if unknown and mode == "Warn":
        for path in unknown:
            call.warn(f'unknown field "{path}"')


def _fill_nulls(metadata: Object) -> None:
    """A null in a list is the empty value of its type to Kubernetes; whether that will do is for the rules to say."""
    for field, empty in (("finalizers", ""), ("ownerReferences", {})):
        if metadata.get(field):
            metadata[field] = [empty if one is None else one for one in metadata[field]]
