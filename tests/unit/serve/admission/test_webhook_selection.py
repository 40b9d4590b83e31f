"""Which requests a webhook wants: rules, versions, selectors and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from kube_apimachinery.admission import AdmissionRequest
from kube_embedded.admission.webhook_config import Webhook, compile_webhooks
from kube_embedded.base.errors import ApiError
from unit.serve.admission.hook_kit import Hook, MakeChain, compile_expression, patch_of, request_of


def compiled(**changes: Any) -> Webhook:
    webhook = {"name": "w", "rules": [rule()], "clientConfig": {"url": "https://w"}, **changes}
    return compile_webhooks([{"metadata": {"name": "c"}, "webhooks": [webhook]}], compile_expression)[0]


def rule(**changes: Any) -> dict[str, Any]:
    return {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], **changes}


POD = {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"}
DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"}
NODE = {"group": "", "version": "v1", "kind": "Node", "resource": "nodes", "namespace": ""}
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "resource": "namespaces", "namespace": ""}

RULES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "everything": ({}, POD, True),
    "the operation": ({"operations": ["CREATE"]}, POD, True),
    "another operation": ({"operations": ["UPDATE", "DELETE"]}, POD, False),
    "the core group": ({"apiGroups": [""]}, POD, True),
    "another group": ({"apiGroups": ["apps"]}, POD, False),
    "a group of several": ({"apiGroups": ["batch", "apps"]}, DEPLOYMENT, True),
    "another version": ({"apiVersions": ["v2"]}, POD, False),
    "the resource": ({"resources": ["pods"]}, POD, True),
    "a star is no subresource": ({"resources": ["*"]}, {**POD, "subresource": "status"}, False),
    "a resource is not its subresource": ({"resources": ["pods"]}, {**POD, "subresource": "status"}, False),
    "the subresource": ({"resources": ["pods/status"]}, {**POD, "subresource": "status"}, True),
    "a subresource is not its resource": ({"resources": ["pods/status"]}, POD, False),
    "every subresource": ({"resources": ["pods/*"]}, {**POD, "subresource": "binding"}, True),
    "every subresource and the resource": ({"resources": ["pods/*"]}, POD, True),
    "a subresource of everything": ({"resources": ["*/scale"]}, {**DEPLOYMENT, "subresource": "scale"}, True),
    "another subresource of everything": ({"resources": ["*/scale"]}, {**DEPLOYMENT, "subresource": "status"}, False),
    "all of all": ({"resources": ["*/*"]}, {**DEPLOYMENT, "subresource": "scale"}, True),
    "namespaced": ({"scope": "Namespaced"}, POD, True),
    "namespaced, of a node": ({"scope": "Namespaced"}, NODE, False),
    "cluster": ({"scope": "Cluster"}, NODE, True),
    "cluster, of a pod": ({"scope": "Cluster"}, POD, False),
    "a namespace is cluster-scoped": ({"scope": "Cluster"}, {**NAMESPACE, "namespace": "shop"}, True),
    "a namespace is not namespaced": ({"scope": "Namespaced"}, {**NAMESPACE, "namespace": "shop"}, False),
}


@pytest.mark.parametrize(("changes", "request_fields", "wanted"), RULES.values(), ids=RULES)
def test_a_rule_matches(changes: dict[str, Any], request_fields: dict[str, Any], wanted: bool) -> None:
    webhook = compiled(rules=[rule(**changes)])
    assert (webhook.version_wanted(request_of(**request_fields), ()) is not None) is wanted


def test_equivalent_takes_another_served_version_exact_does_not() -> None:
    rules = [rule(apiGroups=["apps"], apiVersions=["v1beta1"])]
    request = request_of(**DEPLOYMENT)
    served = ["v1", "v1beta1"]
    assert compiled(rules=rules).version_wanted(request, served) == "v1beta1"
    assert compiled(rules=rules, matchPolicy="Exact").version_wanted(request, served) is None


def test_the_requests_own_version_goes_first() -> None:
    webhook = compiled(rules=[rule(apiVersions=["v2"]), rule(apiVersions=["v1"])])
    assert webhook.version_wanted(request_of(), ["v1", "v2"]) == "v1"


class Versions:
    def served(self, group: str, resource: str) -> list[str]:
        return ["v1", "v2"]

    def convert(self, obj: dict[str, Any], group: str, resource: str, version: str) -> dict[str, Any]:
        return {**obj, "apiVersion": version, "data": {key.swapcase(): value for key, value in obj["data"].items()}}


async def test_an_equivalent_webhook_sees_its_version_and_the_server_gets_back_its_own(
    hook: Hook, make_chain: MakeChain
) -> None:
    hook.answers["m"] = patch_of({"op": "add", "path": "/data/PEAR", "value": "2"})
    chain = make_chain([hook.webhook("m", rules=[rule(apiVersions=["v2"])])], versions=Versions())
    changed = await chain.mutate(request_of(), print)
    asked = hook.reviews[0][1]["request"]
    assert asked["resource"]["version"] == asked["kind"]["version"] == "v2"
    assert asked["requestResource"]["version"] == asked["requestKind"]["version"] == "v1"
    assert asked["object"]["data"] == {"APPLE": "1"}
    assert changed == {**(request_of().object or {}), "data": {"apple": "1", "pear": "2"}}


def labelled(labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "labels": labels}}


OBJECTS: dict[str, tuple[Any, Any, bool]] = {
    "the object": (labelled({"app": "web"}), None, True),
    "not the object": (labelled({"app": "db"}), None, False),
    "the old object": (labelled({}), labelled({"app": "web"}), True),
    "the object of a deletion": (None, labelled({"app": "web"}), True),
    "no object": (None, None, False),
}


@pytest.mark.parametrize(("new", "old", "wanted"), OBJECTS.values(), ids=OBJECTS)
def test_an_object_selector_looks_at_what_was_and_what_will_be(new: Any, old: Any, wanted: bool) -> None:
    webhook = compiled(objectSelector={"matchLabels": {"app": "web"}})
    assert webhook.wants_object(request_of(object=new, old_object=old)) is wanted


async def calls(hook: Hook, make_chain: MakeChain, request: AdmissionRequest, **changes: Any) -> bool:
    before = len(hook.reviews)
    await make_chain(validating=[hook.webhook("v", **changes)]).validate(request, print)
    return len(hook.reviews) > before


PROD = {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod"]}]}


async def test_a_namespace_selector_looks_at_the_namespace(hook: Hook, make_chain: MakeChain) -> None:
    assert await calls(hook, make_chain, request_of(namespace="shop"), namespaceSelector=PROD)
    assert not await calls(hook, make_chain, request_of(namespace="lab"), namespaceSelector=PROD)


async def test_a_cluster_scoped_object_is_never_exempt_by_namespace(hook: Hook, make_chain: MakeChain) -> None:
    assert await calls(hook, make_chain, request_of(**NODE), namespaceSelector=PROD)


async def test_a_namespace_is_selected_by_its_own_new_labels(hook: Hook, make_chain: MakeChain) -> None:
    new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"env": "prod"}}}
    assert await calls(hook, make_chain, request_of(**NAMESPACE, name="new", object=new), namespaceSelector=PROD)
    assert hook.reviews[0][1]["request"]["namespace"] == "new"


async def test_a_namespace_that_is_deleted_is_looked_up(hook: Hook, make_chain: MakeChain) -> None:
    request = request_of(**NAMESPACE, name="lab", operation="DELETE", object=None, old_object=None)
    assert not await calls(hook, make_chain, request, namespaceSelector=PROD)


async def test_a_selector_for_a_namespace_that_is_not_there_refuses(hook: Hook, make_chain: MakeChain) -> None:
    with pytest.raises(ApiError, match='namespaces "gone" not found'):
        await calls(hook, make_chain, request_of(namespace="gone"), namespaceSelector=PROD)


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
async def test_configurations_of_webhooks_never_meet_webhooks(hook: Hook, make_chain: MakeChain, kind: str) -> None:
    request = request_of(
        group="admissionregistration.k8s.io", kind=kind, resource=f"{kind.lower()}s", namespace="", name="c"
    )
    chain = make_chain([hook.webhook("m")], [hook.webhook("v")])
    assert chain.is_idle(request)
    await chain.mutate(request, print)
    await chain.validate(request, print)
    assert hook.reviews == []


def conditions(*expressions: str) -> list[dict[str, str]]:
    return [{"name": f"c{number}", "expression": text} for number, text in enumerate(expressions)]


CONDITIONS: dict[str, tuple[tuple[str, ...], str, bool | str]] = {
    "all true": (("true", "true"), "Fail", True),
    "one false": (("true", "false"), "Fail", False),
    "false beats an error": (("error", "false"), "Fail", False),
    "an error refuses": (("error", "true"), "Fail", "expression 'error' resulted in error: no such key: zone"),
    "an ignored error skips": (("error", "true"), "Ignore", False),
    "two errors": (
        ("error 1", "error 2"),
        "Fail",
        "[expression 'error 1' resulted in error: no such key: zone,"
        " expression 'error 2' resulted in error: no such key: zone]",
    ),
    "of the object": (("has app",), "Fail", False),
}


@pytest.mark.parametrize(("expressions", "policy", "outcome"), CONDITIONS.values(), ids=CONDITIONS)
async def test_conditions_decide_whether_a_webhook_is_called(
    hook: Hook, make_chain: MakeChain, expressions: tuple[str, ...], policy: str, outcome: bool | str
) -> None:
    changes = {"matchConditions": conditions(*expressions), "failurePolicy": policy}
    if isinstance(outcome, bool):
        assert await calls(hook, make_chain, request_of(), **changes) is outcome
        return
    with pytest.raises(ApiError) as caught:
        await calls(hook, make_chain, request_of(), **changes)
    assert (caught.value.code, caught.value.message) == (403, f'configmaps "prices" is forbidden: {outcome}')


def test_a_chain_without_webhooks_is_idle(make_chain: MakeChain) -> None:
    assert make_chain().is_idle(request_of())


async def test_a_chain_is_idle_for_what_no_rule_wants(hook: Hook, make_chain: MakeChain) -> None:
    chain = make_chain([hook.webhook("m", rules=[rule(resources=["pods"])])])
    assert chain.is_idle(request_of())
    assert not chain.is_idle(request_of(**POD))
