"""Admission webhooks: really called out to, in order, and obeyed."""

from __future__ import annotations

import base64
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from cluster_kit.objects import binding, config, crd, custom, deployment, eviction, merged, node, pod
from cluster_kit.server import eventually
from cluster_kit.space import Space
from cluster_kit.webhook import Webhooks, allow, answer, deny, patch, rule
from spinney.sim.kubernetes.control_plane import write_certificates

ANNOTATE = {"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}


def test_a_mutating_webhook_changes_the_object(space: Space, webhooks: Webhooks) -> None:
    webhooks.mutating({"judge": patch(ANNOTATE, {"op": "replace", "path": "/data/k", "value": "changed"})})
    made = space.create("configmaps", config("a")).ok(201)
    assert (made["metadata"]["annotations"], made["data"]) == ({"seen": "yes"}, {"k": "changed"})
    assert space.get("configmaps", "a").ok() == made


def test_the_review_tells_everything(space: Space, webhooks: Webhooks) -> None:
    webhooks.validating({"path": "hook", "judge": allow})
    space.create("configmaps", config("a"), fieldManager="me").ok(201)
    (request,) = webhooks.server.requests("hook")
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["requestKind"] == request["kind"]
    assert request["requestResource"] == request["resource"]
    assert (request["name"], request["namespace"], request["operation"]) == ("a", space.namespace, "CREATE")
    assert request["userInfo"]["username"] == "admin"
    assert "system:masters" in request["userInfo"]["groups"]
    assert request["object"]["data"] == {"k": "v"}
    assert request["object"]["kind"] == "ConfigMap"
    assert request["object"]["metadata"]["uid"]
    assert request["oldObject"] is None
    assert request["dryRun"] is False
    assert (request["options"]["kind"], request["options"]["fieldManager"]) == ("CreateOptions", "me")
    assert request["uid"]


def test_an_update_shows_old_and_new(space: Space, webhooks: Webhooks) -> None:
    space.create("configmaps", config("a")).ok(201)
    webhooks.validating({"path": "hook", "judge": allow})
    space.patch("configmaps", "a", {"data": {"k": "w"}}).ok(200)
    (request,) = webhooks.server.requests("hook")
    assert request["operation"] == "UPDATE"
    assert (request["oldObject"]["data"], request["object"]["data"]) == ({"k": "v"}, {"k": "w"})
    assert request["options"]["kind"] == "UpdateOptions"


def test_a_deletion_shows_the_old_object(space: Space, webhooks: Webhooks) -> None:
    space.create("configmaps", config("a")).ok(201)
    webhooks.validating(
        {"path": "hook", "judge": deny("keep it"), "rules": [rule("configmaps", operations=("DELETE",))]}
    )
    space.delete("configmaps", "a").refused(403, None, "keep it")
    (request,) = webhooks.server.requests("hook")
    assert (request["operation"], request["object"]) == ("DELETE", None)
    assert request["oldObject"]["metadata"]["name"] == "a"
    assert space.exists("configmaps", "a")


def test_a_denial_is_told_with_its_message(space: Space, webhooks: Webhooks) -> None:
    webhooks.validating({"name": "guard.example.com", "judge": deny("not today")})
    refused = space.create("configmaps", config("a"))
    refused.refused(403, None, 'admission webhook "guard.example.com" denied the request: not today')
    assert not space.exists("configmaps", "a")


@pytest.mark.parametrize(
    ("code", "reason"), [(400, "BadRequest"), (409, "Conflict"), (422, "Invalid"), (418, "Teapot")]
)
def test_a_denial_chooses_its_code_and_reason(code: int, reason: str, space: Space, webhooks: Webhooks) -> None:
    webhooks.validating({"judge": deny("no", code, reason=reason)})
    space.create("configmaps", config("a")).refused(code, reason, "denied the request: no")


def test_a_denial_without_words(space: Space, webhooks: Webhooks) -> None:
    webhooks.validating({"name": "guard.example.com", "judge": lambda request: {"allowed": False}})
    refused = space.create("configmaps", config("a"))
    refused.refused(400, None, 'admission webhook "guard.example.com" denied the request without explanation')


def test_warnings_reach_the_user(space: Space, webhooks: Webhooks) -> None:
    webhooks.validating({"judge": lambda request: {"allowed": True, "warnings": ["careful", "really"]}})
    reply = space.create("configmaps", config("a"))
    assert (reply.status, reply.warnings) == (201, ["careful", "really"])


def test_mutating_webhooks_come_in_order_and_before_validating_ones(space: Space, webhooks: Webhooks) -> None:
    def append(letter: str) -> Any:
        def judge(request: Any) -> Any:
            word = request["object"]["data"].get("word", "") + letter
            return patch({"op": "add", "path": "/data/word", "value": word})(request)

        return judge

    webhooks.validating({"path": "last", "judge": allow})
    webhooks.mutating({"judge": append("a")}, {"judge": append("b")})
    made = space.create("configmaps", config("a")).ok(201)
    assert made["data"]["word"] == "ab"
    (request,) = webhooks.server.requests("last")
    assert request["object"]["data"]["word"] == "ab"


def test_configurations_come_in_the_order_of_their_names(space: Space, webhooks: Webhooks) -> None:
    for letter in ("x", "y"):
        webhooks.mutating({"path": letter, "judge": allow})
    space.create("configmaps", config("a")).ok(201)
    assert [name for name, _ in webhooks.server.asked] == ["x", "y"]


def test_reinvocation_when_something_changed_later(space: Space, webhooks: Webhooks) -> None:
    def once(request: Any) -> Any:
        if "late" in request["object"]["data"] and "seen" not in request["object"]["data"]:
            return patch({"op": "add", "path": "/data/seen", "value": "yes"})(request)
        return {"allowed": True}

    def add_late(request: Any) -> Any:
        if "late" in request["object"]["data"]:
            return {"allowed": True}
        return patch({"op": "add", "path": "/data/late", "value": "yes"})(request)

    webhooks.mutating(
        {"path": "first", "judge": once, "reinvocationPolicy": "IfNeeded"}, {"path": "second", "judge": add_late}
    )
    made = space.create("configmaps", config("a")).ok(201)
    assert made["data"] == {"k": "v", "late": "yes", "seen": "yes"}
    assert [name for name, _ in webhooks.server.asked] == ["first", "second", "first"]


def test_no_reinvocation_by_default(space: Space, webhooks: Webhooks) -> None:
    webhooks.mutating(
        {"path": "first", "judge": allow},
        {"path": "second", "judge": patch({"op": "add", "path": "/data/x", "value": "y"})},
    )
    space.create("configmaps", config("a")).ok(201)
    assert [name for name, _ in webhooks.server.asked] == ["first", "second"]


def test_what_a_webhook_makes_invalid_is_refused(space: Space, webhooks: Webhooks) -> None:
    webhooks.mutating({"judge": patch({"op": "add", "path": "/data/b a d", "value": "x"})})
    space.create("configmaps", config("a")).refused(422, "Invalid")
    assert not space.exists("configmaps", "a")


def test_what_a_webhook_adds_is_defaulted(space: Space, webhooks: Webhooks) -> None:
    container = {"name": "side", "image": "example.com/side:1"}
    webhooks.mutating(
        {"judge": patch({"op": "add", "path": "/spec/containers/-", "value": container}), "rules": [rule("pods")]}
    )
    made = space.create("pods", pod("p")).ok(201)
    assert made["spec"]["containers"][1]["terminationMessagePolicy"] == "File"


def broken(handler: BaseHTTPRequestHandler, review: Any) -> None:
    answer(handler, {"oops": True}, 500)


def garbage(handler: BaseHTTPRequestHandler, review: Any) -> None:
    answer(handler, b"this is no json")


def other_uid(handler: BaseHTTPRequestHandler, review: Any) -> None:
    response = {"uid": "another", "allowed": True}
    answer(handler, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def no_response(handler: BaseHTTPRequestHandler, review: Any) -> None:
    answer(handler, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})


def slow(handler: BaseHTTPRequestHandler, review: Any) -> None:
    time.sleep(2.5)
    handler.close_connection = True


FAILURES = {"error": broken, "garbage": garbage, "another uid": other_uid, "no response": no_response, "timeout": slow}


@pytest.mark.parametrize("row", FAILURES)
def test_a_failing_webhook_fails_the_request(row: str, space: Space, webhooks: Webhooks) -> None:
    webhooks.server.raw["hook"] = FAILURES[row]
    webhooks.validating({"name": "bad.example.com", "path": "hook", "timeoutSeconds": 1})
    refused = space.create("configmaps", config("a"))
    refused.refused(500, "InternalError", 'failed calling webhook "bad.example.com"')
    assert not space.exists("configmaps", "a")


@pytest.mark.parametrize("row", FAILURES)
def test_a_failing_webhook_may_be_ignored(row: str, space: Space, webhooks: Webhooks) -> None:
    webhooks.server.raw["hook"] = FAILURES[row]
    webhooks.validating({"path": "hook", "failurePolicy": "Ignore", "timeoutSeconds": 1})
    space.create("configmaps", config("a")).ok(201)
    assert len(webhooks.server.requests("hook")) == 1


def test_nobody_listens(space: Space, webhooks: Webhooks) -> None:
    nowhere = {"url": "https://127.0.0.1:9/hook", "caBundle": webhooks.server.bundle}
    webhooks.validating({"name": "gone.example.com", "clientConfig": nowhere})
    space.create("configmaps", config("a")).refused(500, "InternalError", 'failed calling webhook "gone.example.com"')


def test_a_certificate_of_another_authority_is_not_trusted(space: Space, webhooks: Webhooks, tmp_path: Any) -> None:
    other = base64.b64encode(write_certificates(tmp_path).authority.read_bytes()).decode()
    webhooks.server.judges["hook"] = allow
    client = {"url": f"{webhooks.server.url}/hook", "caBundle": other}
    webhooks.validating({"clientConfig": client})
    refused = space.create("configmaps", config("a")).refused(500, "InternalError", "failed calling webhook")
    assert "certificate" in refused.message
    assert webhooks.server.requests("hook") == []


def test_a_patch_that_does_not_fit_fails_the_request(space: Space, webhooks: Webhooks) -> None:
    webhooks.mutating({"judge": patch({"op": "remove", "path": "/data/absent"})})
    refused = space.create("configmaps", config("a"))
    refused.refused(500, "InternalError")
    assert not space.exists("configmaps", "a")


def test_a_namespace_selector(space: Space, cluster: Space, unique: str, webhooks: Webhooks) -> None:
    other = f"{unique}-other"
    cluster.create("namespaces", {"metadata": {"name": other}}).ok(201)
    webhooks.validating({"path": "hook", "judge": deny()})
    Space(space.server, other).create("configmaps", config("a")).ok(201)
    space.create("configmaps", config("a")).refused(403)


def test_an_object_selector(space: Space, webhooks: Webhooks) -> None:
    webhooks.validating({"judge": deny(), "objectSelector": {"matchLabels": {"guard": "yes"}}})
    space.create("configmaps", config("free")).ok(201)
    space.create("configmaps", config("a", labels={"guard": "yes"})).refused(403)
    # Old and new are both looked at: the label cannot be put on unjudged.
    space.patch("configmaps", "free", {"metadata": {"labels": {"guard": "yes"}}}).refused(403)


MATCHES = {
    "object": ("object.data.k == 'guarded'", True),
    "request": ("request.operation == 'UPDATE'", False),
    "name": ("object.metadata.name.startsWith('g')", True),
    "user": ("'system:masters' in request.userInfo.groups", True),
    "other user": ("request.userInfo.username == 'nobody'", False),
    "all": ("has(object.data) && request.namespace != 'kube-system'", True),
    "authorizer": ("authorizer.group('').resource('pods').namespace('default').check('create').allowed()", True),
}


@pytest.mark.parametrize("row", MATCHES)
def test_match_conditions(row: str, space: Space, webhooks: Webhooks) -> None:
    expression, is_asked = MATCHES[row]
    webhooks.validating({"path": "hook", "judge": allow, "matchConditions": [{"name": "c", "expression": expression}]})
    space.create("configmaps", config("g", {"k": "guarded"})).ok(201)
    assert bool(webhooks.server.requests("hook")) == is_asked


def test_all_match_conditions_must_hold(space: Space, webhooks: Webhooks) -> None:
    conditions = [{"name": "yes", "expression": "true"}, {"name": "no", "expression": "false"}]
    webhooks.validating({"path": "hook", "judge": deny(), "matchConditions": conditions})
    space.create("configmaps", config("a")).ok(201)


def test_a_match_condition_that_fails_fails_the_request(space: Space, webhooks: Webhooks) -> None:
    conditions = [{"name": "c", "expression": "object.data.absent == 'x'"}]
    webhooks.validating({"path": "hook", "judge": allow, "matchConditions": conditions})
    space.create("configmaps", config("a")).refused(403, "Forbidden")
    assert not space.exists("configmaps", "a")


def test_a_match_condition_that_fails_may_be_ignored(space: Space, webhooks: Webhooks) -> None:
    conditions = [{"name": "c", "expression": "object.data.absent == 'x'"}]
    webhooks.validating({"path": "hook", "judge": deny(), "failurePolicy": "Ignore", "matchConditions": conditions})
    space.create("configmaps", config("a")).ok(201)


RULES: dict[str, tuple[dict[str, Any], bool]] = {
    "another resource": (rule("secrets"), False),
    "every resource": (rule("*"), True),
    "another operation": (rule("configmaps", operations=("UPDATE",)), False),
    "every operation": (rule("configmaps", operations=("*",)), True),
    "another group": ({**rule("configmaps"), "apiGroups": ["apps"]}, False),
    "the core group": ({**rule("configmaps"), "apiGroups": [""]}, True),
    "another version": ({**rule("configmaps"), "apiVersions": ["v2"]}, False),
    "namespaced scope": (rule("configmaps", scope="Namespaced"), True),
    "cluster scope": (rule("configmaps", scope="Cluster"), False),
    "a subresource only": (rule("configmaps/status"), False),
    "all with subresources": (rule("*/*"), True),
}


@pytest.mark.parametrize("row", RULES)
def test_rules_choose_requests(row: str, space: Space, webhooks: Webhooks) -> None:
    matcher, is_asked = RULES[row]
    webhooks.validating({"path": "hook", "judge": allow, "rules": [matcher]})
    space.create("configmaps", config("a")).ok(201)
    assert bool(webhooks.server.requests("hook")) == is_asked


def test_subresources_have_rules_of_their_own(space: Space, cluster: Space, unique: str, webhooks: Webhooks) -> None:
    cluster.create("nodes", node(unique)).ok(201)
    space.create("pods", pod("p")).ok(201)
    rules = [rule("pods/status", "pods/binding", "pods/eviction", "deployments/scale")]
    webhooks.validating({"path": "hook", "judge": allow, "rules": rules})
    space.create("pods", binding("p", unique), name="p", sub="binding").ok(201)
    space.patch("pods", "p", {"status": {"phase": "Running"}}, sub="status").ok(200)
    space.create("deployments", deployment("d")).ok(201)
    space.patch("deployments", "d", {"spec": {"replicas": 2}}, sub="scale").ok(200)
    space.create("pods", eviction("p"), name="p", sub="eviction").ok(201)
    seen = [
        (request["subResource"], request["operation"], request["kind"]["kind"])
        for request in webhooks.server.requests("hook")
    ]
    assert seen == [
        ("binding", "CREATE", "Binding"),
        ("status", "UPDATE", "Pod"),
        ("scale", "UPDATE", "Scale"),
        ("eviction", "CREATE", "Eviction"),
    ]


def test_a_binding_can_be_denied(space: Space, webhooks: Webhooks) -> None:
    space.create("pods", pod("p")).ok(201)
    webhooks.validating({"judge": deny("no room"), "rules": [rule("pods/binding")]})
    space.create("pods", binding("p", "n"), name="p", sub="binding").refused(403, None, "no room")
    assert "nodeName" not in space.get("pods", "p").ok()["spec"]


def test_dry_run_is_told(space: Space, webhooks: Webhooks) -> None:
    webhooks.mutating({"path": "hook", "judge": patch(ANNOTATE)})
    answer = space.create("configmaps", config("a"), dryRun="All").ok(201)
    assert answer["metadata"]["annotations"] == {"seen": "yes"}
    (request,) = webhooks.server.requests("hook")
    assert request["dryRun"] is True


def test_a_dry_run_does_not_reach_webhooks_with_side_effects(space: Space, webhooks: Webhooks) -> None:
    webhooks.server.judges["hook"] = allow
    effect = {"path": "hook", "judge": allow, "sideEffects": "NoneOnDryRun"}
    webhooks.validating(effect)
    space.create("configmaps", config("a"), dryRun="All").ok(201)
    assert len(webhooks.server.requests("hook")) == 1


def test_equivalent_matching_reaches_other_versions(
    space: Space, cluster: Space, unique: str, webhooks: Webhooks
) -> None:
    group = f"{unique}.example.com"
    definition = crd(group)
    (first,) = definition["spec"]["versions"]
    definition["spec"]["versions"] = [{**first, "name": "v1beta1", "storage": False}, first]
    cluster.establish(definition)
    matcher = {**rule("widgets"), "apiGroups": [group], "apiVersions": ["v1"]}
    webhooks.validating(
        {"path": "equivalent", "judge": allow, "rules": [matcher]},
        {"path": "exact", "judge": allow, "rules": [matcher], "matchPolicy": "Exact"},
    )

    def asked() -> bool:
        space.create(f"{group}/v1beta1/widgets", custom(group, "a", version="v1beta1"), dryRun="All").ok(201)
        return bool(webhooks.server.requests("equivalent"))

    eventually(asked, "the webhook is asked in the version it knows")
    request = webhooks.server.requests("equivalent")[-1]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v1beta1")
    assert request["object"]["apiVersion"] == f"{group}/v1"
    assert webhooks.server.requests("exact") == []


def test_custom_objects_are_judged(space: Space, cluster: Space, unique: str, webhooks: Webhooks) -> None:
    group = f"{unique}.example.com"
    cluster.establish(crd(group))
    matcher = {**rule("widgets"), "apiGroups": [group]}
    change = patch({"op": "add", "path": "/spec/color", "value": "red"})
    webhooks.mutating({"judge": change, "rules": [matcher]})
    made = space.create(f"{group}/v1/widgets", custom(group, "a", spec={"size": 1})).ok(201)
    assert made["spec"] == {"size": 1, "color": "red"}


def test_a_deleted_configuration_is_not_asked_any_more(space: Space, cluster: Space, webhooks: Webhooks) -> None:
    name = webhooks.validating({"judge": deny()})
    space.create("configmaps", config("a")).refused(403)
    cluster.delete("validatingwebhookconfigurations", name).ok(200)
    eventually(lambda: space.create("configmaps", config("a"), dryRun="All").status == 201, "the webhook is forgotten")


def test_apply_and_patches_are_judged_as_updates(space: Space, webhooks: Webhooks) -> None:
    space.create("configmaps", config("a")).ok(201)
    webhooks.validating({"judge": deny("frozen"), "rules": [rule("configmaps", operations=("UPDATE",))]})
    space.apply("configmaps", config("a", {"k": "w"}), force="true").refused(403, None, "frozen")
    space.patch("configmaps", "a", [{"op": "replace", "path": "/data/k", "value": "w"}], "json").refused(
        403, None, "frozen"
    )
    space.replace("configmaps", config("a", {"k": "w"})).refused(403, None, "frozen")
    assert space.get("configmaps", "a").ok()["data"] == {"k": "v"}


HOOK: dict[str, Any] = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "rules": [rule("configmaps")],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "objectSelector": {"matchLabels": {"never": "ever"}},
}
BAD_HOOKS: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": ""}, "name"),
    "a short name": ({"name": "a"}, "name"),
    "no client": ({"clientConfig": None}, "clientConfig"),
    "an http url": ({"clientConfig": {"url": "http://127.0.0.1/x"}}, "clientConfig.url"),
    "url and service": (
        {"clientConfig": {"url": "https://a/x", "service": {"name": "s", "namespace": "n"}}},
        "clientConfig",
    ),
    "unknown side effects": ({"sideEffects": "Some"}, "sideEffects"),
    "no side effects": ({"sideEffects": None}, "sideEffects"),
    "no versions": ({"admissionReviewVersions": []}, "admissionReviewVersions"),
    "unknown versions": ({"admissionReviewVersions": ["v9"]}, "admissionReviewVersions"),
    "timeout too long": ({"timeoutSeconds": 31}, "timeoutSeconds"),
    "timeout too short": ({"timeoutSeconds": 0}, "timeoutSeconds"),
    "failure policy": ({"failurePolicy": "Shrug"}, "failurePolicy"),
    "match policy": ({"matchPolicy": "Roughly"}, "matchPolicy"),
    "operation": ({"rules": [rule("pods", operations=("READ",))]}, "rules[0].operations[0]"),
    "no operations": ({"rules": [rule("pods", operations=())]}, "rules[0].operations"),
    "scope": ({"rules": [rule("pods", scope="Galaxy")]}, "rules[0].scope"),
    "condition without name": ({"matchConditions": [{"name": "", "expression": "true"}]}, "matchConditions[0].name"),
    "condition that cannot be compiled": (
        {"matchConditions": [{"name": "c", "expression": "object."}]},
        "matchConditions[0].expression",
    ),
    "condition that is no question": (
        {"matchConditions": [{"name": "c", "expression": "1"}]},
        "matchConditions[0].expression",
    ),
    "selector": ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "namespaceSelector"),
}


CEL_ROWS = {"condition that cannot be compiled", "condition that is no question"}
"""Rows whose message quotes the compiler of CEL."""


@pytest.mark.parametrize("row", BAD_HOOKS)
def test_a_bad_configuration_is_refused(row: str, cluster: Space, unique: str) -> None:
    change, where = BAD_HOOKS[row]
    hook = merged(HOOK, change)
    hook.update({key: value for key, value in change.items() if isinstance(value, list)})
    body = {"metadata": {"name": unique}, "webhooks": [hook]}
    refused = cluster.create("validatingwebhookconfigurations", body).refused(422, "Invalid")
    assert any(field.startswith(f"webhooks[0].{where}") for _, field in refused.causes), refused.causes


@pytest.mark.parametrize("kind", ["validating", "mutating"])
def test_a_configuration_is_defaulted(kind: str, cluster: Space, unique: str) -> None:
    body = {"metadata": {"name": unique}, "webhooks": [HOOK]}
    (hook,) = cluster.create(f"{kind}webhookconfigurations", body).ok(201)["webhooks"]
    assert (hook["failurePolicy"], hook["matchPolicy"], hook["timeoutSeconds"]) == ("Fail", "Equivalent", 10)
    assert (hook["namespaceSelector"], hook["rules"][0]["scope"]) == ({}, "*")
    assert hook.get("reinvocationPolicy") == ("Never" if kind == "mutating" else None)
