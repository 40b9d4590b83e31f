from __future__ import annotations
import threading, time
from typing import Any
import pytest
from cluster_kit.objects import *
from cluster_kit.server import eventually
from cluster_kit.space import Space
from cluster_kit.webhook import Webhooks, WebhookServer, allow, deny, rule, patch as hookpatch

@pytest.fixture(scope="session")
def _webhook_server(tmp_path_factory):
    server = WebhookServer(tmp_path_factory.mktemp("webhook")); server.start(); yield server; server.stop()
@pytest.fixture
def webhooks(_webhook_server, space, cluster, unique):
    for r in (_webhook_server.judges, _webhook_server.raw, _webhook_server.asked): r.clear()
    return Webhooks(_webhook_server, space, cluster, unique)
@pytest.fixture
def running(space, cluster, unique):
    cluster.create("nodes", node(unique)).ok(201)
    def make(*names, **meta):
        for name in names:
            space.create("pods", pod(name, labels={"app": "a"}, **meta)).ok(201)
            space.create("pods", binding(name, unique), name=name, sub="binding").ok(201)
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            space.patch("pods", name, {"status": ready}, "strategic", "status").ok(200)
    return make
def evict(space, name="p", **options): return space.create("pods", eviction(name, **options), name=name, sub="eviction")
def conds(p): return {c["type"] for c in p["status"].get("conditions", [])}

def test_b1_failed_precondition_marks_nobody(space, running):
    running("p")
    evict(space, preconditions={"uid": "11111111-2222-3333-4444-555555555555"}).refused(409)
    assert "DisruptionTarget" not in conds(space.get("pods", "p").ok())
def test_b2_eviction_with_current_version(space, running):
    running("p")
    v = space.get("pods", "p").ok()["metadata"]["resourceVersion"]
    evict(space, preconditions={"resourceVersion": v}).ok(201)
def test_b3_pending_evicted_is_marked(space):
    space.create("pods", pod("p", finalizers=["example.com/hold"])).ok(201)
    evict(space).ok(201)
    now = space.get("pods", "p").ok()
    print("MARK", "DisruptionTarget" in conds(now))
    space.patch("pods", "p", {"metadata": {"finalizers": None}})
    assert "DisruptionTarget" in conds(now)
def test_b4_failed_precondition_takes_no_budget(space, running):
    running("p", "q")
    space.create("poddisruptionbudgets", budget("b", minAvailable=1)).ok(201)
    eventually(lambda: space.get("poddisruptionbudgets", "b").ok().get("status", {}).get("disruptionsAllowed") == 1)
    evict(space, preconditions={"uid": "11111111-2222-3333-4444-555555555555"}).refused(409)
    assert space.get("poddisruptionbudgets", "b").ok()["status"]["disruptionsAllowed"] == 1
def test_e_no_initial_events_when_not_wanted(space):
    space.create("configmaps", config("a")).ok(201)
    with space.watch("configmaps", sendInitialEvents="false", resourceVersionMatch="NotOlderThan", timeoutSeconds=2) as w:
        assert w.rest() == []
def test_k1_denied_dependent_does_not_hold_others(space, webhooks):
    webhooks.validating({"path": "h", "judge": deny("no"), "rules": [rule("configmaps", operations=("DELETE",))], "objectSelector": {"matchLabels": {"held": "yes"}}})
    p = space.create("configmaps", config("parent")).ok(201)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": p["metadata"]["uid"]}
    space.create("configmaps", config("a", labels={"held": "yes"}, ownerReferences=[ref])).ok(201)
    space.create("configmaps", config("b", ownerReferences=[ref])).ok(201)
    space.delete("configmaps", "parent").ok(200)
    space.gone("configmaps", "b")
def test_k2_denied_dependent_goes_later(space, webhooks, cluster):
    name = webhooks.validating({"path": "h", "judge": deny("no"), "rules": [rule("configmaps", operations=("DELETE",))], "objectSelector": {"matchLabels": {"held": "yes"}}})
    p = space.create("configmaps", config("parent")).ok(201)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": p["metadata"]["uid"]}
    space.create("configmaps", config("a", labels={"held": "yes"}, ownerReferences=[ref])).ok(201)
    space.delete("configmaps", "parent").ok(200)
    time.sleep(0.5)
    cluster.delete("validatingwebhookconfigurations", name).ok(200)
    eventually(lambda: not space.exists("configmaps", "a"), "", 30)
def test_k3_namespace_after_denial(space, webhooks, cluster):
    name = webhooks.validating({"path": "h", "judge": deny("no"), "rules": [rule("configmaps", operations=("DELETE",))], "objectSelector": {"matchLabels": {"held": "yes"}}})
    space.create("configmaps", config("a", labels={"held": "yes"})).ok(201)
    cluster.delete("namespaces", space.namespace).ok(200)
    time.sleep(1)
    cluster.delete("validatingwebhookconfigurations", name).ok(200)
    eventually(lambda: cluster.get("namespaces", space.namespace).status == 404, "", 40)
def test_m_racing_applies(space, webhooks):
    done = []
    def judge(request):
        if not done and request["operation"] == "CREATE" and request["name"] == "a":
            done.append(1)
            space.apply("configmaps", {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}, manager="other").ok(201)
        return {"allowed": True}
    webhooks.mutating({"path": "h", "judge": judge})
    r = space.apply("configmaps", {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"y":"1"}}, manager="me")
    print(r.status, r.raw[:300])
    r.ok(200, 201)
    assert space.get("configmaps", "a").ok()["data"] == {"x": "1", "y": "1"}
def test_oo_status_patch_dry(space):
    space.create("deployments", deployment("d")).ok(201)
    space.patch("deployments", "d", {"status": {"replicas": 5}}, sub="status", dryRun="Some").refused(422)
def test_pp_binding_dry(space):
    space.create("pods", pod("p")).ok(201)
    space.create("pods", binding("p", "n"), name="p", sub="binding", dryRun="Some").refused(422)
def test_pp2_scale_dry(space):
    space.create("deployments", deployment("d")).ok(201)
    space.patch("deployments", "d", {"spec": {"replicas": 5}}, sub="scale", dryRun="Some").refused(422)
def test_pp3_delete_dry(space):
    space.create("configmaps", config("d")).ok(201)
    space.delete("configmaps", "d", dryRun="Some").refused(422)
def test_pp4_evict_dry(space):
    space.create("pods", pod("p")).ok(201)
    space.create("pods", eviction("p"), name="p", sub="eviction", dryRun="Some").refused(422)
def test_ss_named_list(space):
    space.create("configmaps", config("a")).ok(201)
    space.create("roles", role("granted", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"], "resourceNames": ["a"]})).ok(201)
    space.create("rolebindings", role_binding("granted", "granted", "alice")).ok(201)
    eventually(lambda: space.as_user("alice").get("configmaps", fieldSelector="metadata.name=a").status == 200)
def test_t_second_definition_is_accepted_when_first_goes(cluster, unique):
    g = f"{unique}.example.com"
    cluster.establish(crd(g))
    second = crd(g)
    second["metadata"]["name"] = f"gadgets.{g}"; second["spec"]["names"] = {"plural": "gadgets", "kind": "Widget", "listKind": "WidgetList"}
    cluster.create("customresourcedefinitions", second).ok(201)
    time.sleep(1)
    cluster.delete("customresourcedefinitions", f"widgets.{g}").ok(200)
    cluster.established(f"gadgets.{g}")
def test_jj_binding_collection_is_not_pods_create(space, webhooks):
    space.create("pods", pod("p")).ok(201)
    webhooks.validating({"path": "h", "judge": deny("no"), "rules": [rule("pods")]})
    space.create("bindings", binding("p", "n")).ok(201)
def test_hh_watch_of_untouched_kind(space):
    v = space.list("configmaps")["metadata"]["resourceVersion"]
    space.create("configmaps", config("a")).ok(201)
    with space.watch("horizontalpodautoscalers", resourceVersion=v, timeoutSeconds=2) as w:
        assert w.rest() == []
def test_owner_named_later(space):
    p = space.create("configmaps", config("parent")).ok(201)
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": p["metadata"]["uid"]}
    space.create("configmaps", config("a")).ok(201)
    space.patch("configmaps", "a", {"metadata": {"ownerReferences": [ref]}}).ok(200)
    space.delete("configmaps", "parent").ok(200)
    space.gone("configmaps", "a")
