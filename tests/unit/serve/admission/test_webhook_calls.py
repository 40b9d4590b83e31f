"""Webhooks are called over HTTPS and believed only when their answer may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from kube_embedded.base.errors import ApiError
from unit.serve.admission.hook_kit import AUTHORITY, STRANGER, Hook, MakeChain, encoded, patch_of, request_of


async def refused(chain: Any, request: Any = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await chain.mutate(request or request_of(), lambda warning: None)
        await chain.validate(request or request_of(), lambda warning: None)
    return caught.value


async def test_an_allowed_object_passes_unchanged(hook: Hook, make_chain: MakeChain) -> None:
    chain = make_chain([hook.webhook("m")], [hook.webhook("v")])
    assert await chain.mutate(request_of(), print) is None
    await chain.validate(request_of(), print)
    assert hook.asked == ["m", "v"]


async def test_the_review_describes_the_request(hook: Hook, make_chain: MakeChain) -> None:
    await make_chain(validating=[hook.webhook("v")]).validate(request_of(), print)
    review = hook.reviews[0][1]
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    assert review["request"] == {
        "uid": "uid-1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "prices",
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "groups": ["devs", "system:authenticated"]},
        "object": request_of().object,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }


async def test_a_patch_changes_the_object_and_leaves_the_original_alone(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["m"] = patch_of({"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}})
    request = request_of()
    changed = await make_chain([hook.webhook("m")]).mutate(request, print)
    assert changed is not None and changed["metadata"]["labels"] == {"seen": "yes"}
    assert request.object is not None and "labels" not in request.object["metadata"]


DENIALS = {
    "nothing said": (None, 400, "", " denied the request without explanation"),
    "a message": ({"message": "no way"}, 400, "", " denied the request: no way"),
    "a reason": ({"reason": "Forbidden"}, 400, "Forbidden", " denied the request: Forbidden"),
    "a code": ({"message": "no", "code": 403}, 403, "", " denied the request: no"),
    "a code that is no error": ({"message": "no", "code": 200}, 400, "", " denied the request: no"),
}


@pytest.mark.parametrize(("status", "code", "reason", "text"), DENIALS.values(), ids=DENIALS)
@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_a_denial_says_who_and_why(
    hook: Hook, make_chain: MakeChain, kind: str, status: Any, code: int, reason: str, text: str
) -> None:
    hook.answers["no"] = {"allowed": False, **({"status": status} if status else {})}
    error = await refused(make_chain(**{kind: [hook.webhook("no")]}))
    assert (error.code, error.reason, error.message) == (code, reason, f'admission webhook "no.example.com"{text}')


async def test_a_denial_keeps_the_details_of_the_webhook(hook: Hook, make_chain: MakeChain) -> None:
    details = {"causes": [{"field": "spec", "message": "m", "reason": "FieldValueInvalid"}]}
    hook.answers["no"] = {
        "allowed": False,
        "status": {"message": "bad", "reason": "Invalid", "code": 422, "details": details},
    }
    error = await refused(make_chain(validating=[hook.webhook("no")]))
    assert (error.code, error.reason, error.details) == (422, "Invalid", details)


async def test_warnings_reach_the_client_even_with_a_denial(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["v"] = {"allowed": False, "warnings": ["one", "two"]}
    warnings: list[str] = []
    with pytest.raises(ApiError):
        await make_chain(validating=[hook.webhook("v")]).validate(request_of(), warnings.append)
    assert warnings == ["one", "two"]


def _review(response: Any, **changes: Any) -> web.Response:
    return web.json_response(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response, **changes}
    )


INVALID = "received invalid webhook response: "
CALL = "failed to call webhook: "
BAD_ANSWERS: dict[str, tuple[Any, str]] = {
    "500": (lambda r: web.Response(status=500, text="boom"), f'{CALL}an error on the server ("boom") has prevented '),
    "404": (lambda r: web.Response(status=404), f"{CALL}the server could not find the requested resource"),
    "a Status": (
        lambda r: web.json_response({"kind": "Status", "message": "sorry"}, status=500),
        f"{CALL}sorry",
    ),
    "a redirect": (
        lambda r: web.Response(status=307, headers={"Location": "/elsewhere"}),
        f"{CALL}the server responded with the status code 307",
    ),
    "no body": (lambda r: web.Response(text=""), f"{CALL}0-length response with status code: 200"),
    "no JSON": (lambda r: web.Response(text="hello"), f"{CALL}couldn't get version/kind; json parse error"),
    "a list": (lambda r: web.json_response([]), f"{CALL}couldn't get version/kind; json parse error"),
    "no response": (lambda r: _review(None), f"{INVALID}webhook response was absent"),
    "another uid": (
        lambda r: _review({"uid": "x", "allowed": True}),
        f'{INVALID}expected response.uid="uid-1", got "x"',
    ),
    "no kind": (
        lambda r: _review({"uid": "uid-1", "allowed": True}, kind="", apiVersion=""),
        f"{INVALID}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
    ),
    "an old version": (
        lambda r: _review({"uid": "uid-1"}, apiVersion="admission.k8s.io/v1beta1"),
        f"{CALL}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview)",
    ),
    "a word for allowed": ({"allowed": "yes"}, f"{CALL}json: cannot unmarshal string into Go struct field"),
    "a patch without a type": (
        {"patch": "W10="},
        f"{INVALID}webhook returned response.patch but not response.patchType",
    ),
    "a type without a patch": ({"patchType": "JSONPatch"}, f"{INVALID}webhook returned response.patchType but not"),
    "a patch of another type": ({"patch": "W3t9XQ==", "patchType": "Merge"}, 'unsupported patch type "Merge"'),
    "a patch that is no JSON": ({"patch": "eyE=", "patchType": "JSONPatch"}, "received undecodable patch in webhook"),
}


@pytest.mark.parametrize(("answer", "text"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_an_answer_that_cannot_be_used_fails_the_call(
    hook: Hook, make_chain: MakeChain, answer: Any, text: str
) -> None:
    hook.answers["m"] = answer
    error = await refused(make_chain([hook.webhook("m")]))
    assert (error.code, error.reason) == (500, "InternalError")
    assert error.message.startswith(f'Internal error occurred: failed calling webhook "m.example.com": {text}')
    assert error.details == {"causes": [{"message": error.message.removeprefix("Internal error occurred: ")}]}


@pytest.mark.parametrize("answer", [answer for answer, _ in BAD_ANSWERS.values()], ids=list(BAD_ANSWERS))
async def test_with_ignore_no_failed_call_refuses_anything(hook: Hook, make_chain: MakeChain, answer: Any) -> None:
    hook.answers["m"] = answer
    assert await make_chain([hook.webhook("m", failurePolicy="Ignore")]).mutate(request_of(), print) is None


async def test_a_denial_is_not_ignored(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["m"] = {"allowed": False}
    assert (await refused(make_chain([hook.webhook("m", failurePolicy="Ignore")]))).code == 400


async def test_a_validating_webhook_may_not_patch(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["v"] = patch_of({"op": "add", "path": "/data/b", "value": "2"})
    error = await refused(make_chain(validating=[hook.webhook("v")]))
    assert error.message.endswith("validating webhook may not return response.patch")


async def test_a_patch_that_does_not_apply_is_the_servers_error_even_with_ignore(
    hook: Hook, make_chain: MakeChain
) -> None:
    hook.answers["m"] = patch_of({"op": "remove", "path": "/metadata/nope"})
    error = await refused(make_chain([hook.webhook("m", failurePolicy="Ignore")]))
    assert error.message == (
        "Internal error occurred: error in remove for path: '/metadata/nope': "
        "Unable to remove nonexistent key: nope: missing value"
    )


async def test_a_deletion_cannot_be_patched(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["m"] = patch_of({"op": "add", "path": "/data/b", "value": "2"})
    request = request_of(operation="DELETE", object=None, old_object=request_of().object)
    error = await refused(make_chain([hook.webhook("m")]), request)
    assert "attempted to modify the object, which is not supported for this operation" in error.message


async def test_a_slow_webhook_is_not_waited_for_longer_than_its_timeout(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers["slow"] = lambda review: asyncio.sleep(0.4, {})
    error = await refused(make_chain(validating=[hook.webhook("slow", timeoutSeconds=0.03)]))
    assert error.message.endswith(f'Post "{hook.url("slow")}?timeout=0.03s": context deadline exceeded')


async def test_a_server_of_another_authority_is_not_trusted(hook: Hook, make_chain: MakeChain) -> None:
    client = {"url": hook.url("v"), "caBundle": encoded(STRANGER.certificate_pem)}
    error = await refused(make_chain(validating=[hook.webhook("v", clientConfig=client)]))
    assert error.message.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")
    assert hook.reviews == []


async def test_without_a_bundle_only_the_systems_roots_are_trusted(hook: Hook, make_chain: MakeChain) -> None:
    error = await refused(make_chain(validating=[hook.webhook("v", clientConfig={"url": hook.url("v")})]))
    assert error.message.endswith("x509: certificate signed by unknown authority")


async def test_the_certificate_must_name_the_host(hook: Hook, make_chain: MakeChain) -> None:
    client = {"url": f"https://localhost:{hook.port}/v", "caBundle": encoded(AUTHORITY.certificate_pem)}
    error = await refused(make_chain(validating=[hook.webhook("v", clientConfig=client)]))
    assert "x509: certificate is not valid for localhost" in error.message


async def test_nobody_listening_is_told_as_refused(make_chain: MakeChain, hook: Hook) -> None:
    client = {"url": "https://127.0.0.1:1/v", "caBundle": encoded(AUTHORITY.certificate_pem)}
    error = await refused(make_chain(validating=[hook.webhook("v", clientConfig=client)]))
    assert error.message.endswith("dial tcp 127.0.0.1:1: connect: connection refused")


async def test_an_unknown_service_fails_the_call(hook: Hook, make_chain: MakeChain) -> None:
    service = {"service": {"name": "hook", "namespace": "tools", "path": "/v"}}
    error = await refused(make_chain(validating=[hook.webhook("v", clientConfig=service)]))
    assert error.message.endswith('Post "https://hook.tools.svc:443/v?timeout=10s": service "hook" not found')


async def test_a_service_is_called_where_the_resolver_says_under_its_own_name(
    hook: Hook, make_chain: MakeChain
) -> None:
    client = {
        "service": {"name": "hook", "namespace": "tools", "path": "/v"},
        "caBundle": encoded(AUTHORITY.certificate_pem),
    }
    chain = make_chain(
        validating=[hook.webhook("v", clientConfig=client)], resolve=lambda service: ("127.0.0.1", hook.port)
    )
    await chain.validate(request_of(), print)
    assert hook.asked == ["v"]


async def test_a_webhook_with_side_effects_is_not_called_on_a_dry_run(hook: Hook, make_chain: MakeChain) -> None:
    chain = make_chain(validating=[hook.webhook("v", sideEffects="Some", failurePolicy="Ignore")])
    error = await refused(chain, request_of(dry_run=True))
    assert (error.code, error.message) == (400, 'admission webhook "v.example.com" does not support dry run')
    assert hook.reviews == []


async def test_a_webhook_without_side_effects_is_told_of_the_dry_run(hook: Hook, make_chain: MakeChain) -> None:
    await make_chain(validating=[hook.webhook("v", sideEffects="NoneOnDryRun")]).validate(
        request_of(dry_run=True), print
    )
    request = hook.reviews[0][1]["request"]
    assert request["dryRun"] is True and request["options"]["dryRun"] == ["All"]


async def test_a_webhook_that_does_not_speak_v1_fails_the_call(hook: Hook, make_chain: MakeChain) -> None:
    error = await refused(make_chain(validating=[hook.webhook("v", admissionReviewVersions=["v2"])]))
    assert error.message.endswith("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


async def test_validating_webhooks_are_called_at_once(hook: Hook, make_chain: MakeChain) -> None:
    both = asyncio.Barrier(2)

    async def meet() -> dict[str, Any]:
        async with asyncio.timeout(1):
            await both.wait()
        return {}

    hook.answers = {"a": lambda review: meet(), "b": lambda review: meet()}
    await make_chain(validating=[hook.webhook("a"), hook.webhook("b")]).validate(request_of(), print)
    assert sorted(hook.asked) == ["a", "b"]


async def test_of_several_denials_the_first_webhooks_is_told(hook: Hook, make_chain: MakeChain) -> None:
    hook.answers = {"a": {"allowed": False}, "b": {"allowed": False}}
    error = await refused(make_chain(validating=[hook.webhook("a"), hook.webhook("b")]))
    assert '"a.example.com"' in error.message
