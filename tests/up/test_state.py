"""`spinney up --data-dir`: what a restart finds, and who may not use the directory meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from cluster_kit.server import eventually
from spinney.api.roles import NAMESPACE
from spinney.api.roles.catalog import SCHEDULER_RECORDS
from stack_kit.spinney import Spinney

Up = Callable[..., Spinney]

MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}


def widget(name: str, size: object) -> dict:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}}


def version_of(listed: dict) -> int:
    return int(listed["metadata"]["resourceVersion"])


def test_a_restart_finds_objects_versions_kinds_and_tokens(up: Up, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    before = up("--data-dir", state).ready()
    before.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    before.kubectl("create", "serviceaccount", "robot")
    before.kubectl("create", "clusterrolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
    token = before.kubectl("create", "token", "robot").strip()
    before.kubectl("create", "-f", "-", input=json.dumps(DEFINITION))
    eventually(lambda: before.http("GET", WIDGETS)[0] == 200, "widgets are served")
    assert before.http("POST", WIDGETS, widget("w", 1))[0] == 201
    kept = before.get("configmap", "kept")
    highest = version_of(before.http("GET", MAPS)[1])
    status, _ = before.stop()
    assert status == 0

    after = up("--data-dir", state).ready()
    assert after.get("configmap", "kept") == kept
    assert version_of(after.http("GET", MAPS)[1]) >= highest
    assert after.http("GET", f"{WIDGETS}/w")[1]["spec"] == {"size": 1}
    assert after.http("POST", WIDGETS, widget("x", "large"))[0] == 422, "the schema is enforced again"
    assert after.http("GET", MAPS, token=token)[0] == 200
    assert after.http("POST", MAPS, {"metadata": {"name": "n"}}, token=token)[0] == 403
    assert len(after.get("nodes")["items"]) == 16
    assert after.token == before.token
    created = after.http("POST", MAPS, {"metadata": {"name": "new"}})[1]
    assert int(created["metadata"]["resourceVersion"]) > highest


def test_a_watch_from_before_a_restart_must_list_again(up: Up, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    before = up("--data-dir", state).ready()
    version = version_of(before.http("GET", MAPS)[1])
    before.kubectl("create", "configmap", "made-after-the-version")
    before.stop()
    after = up("--data-dir", state).ready()
    _, event = after.http("GET", f"{MAPS}?watch=true&resourceVersion={version}")
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_a_deletion_of_a_definition_begun_before_a_restart_is_finished_after_it(up: Up, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    before = up("--data-dir", state).ready()
    before.kubectl("create", "namespace", "short")
    before.kubectl("create", "-f", "-", input=json.dumps(DEFINITION))
    held = widget("held", 1)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    eventually(lambda: before.http("POST", WIDGETS, held)[0] == 201, "widgets are served")
    before.kubectl("delete", "crd", "widgets.example.com", "--wait=false")
    assert before.http("GET", f"{WIDGETS}/held")[0] == 200
    before.kill()

    after = up("--data-dir", state).ready()
    assert after.http("GET", f"{WIDGETS}/held")[0] == 200
    after.kubectl("patch", "widget", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: after.http("GET", WIDGETS)[0] == 404, "the definition is gone")


def test_work_goes_on_after_a_restart(up: Up, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    before = up("--data-dir", state).ready()
    before.kubectl("create", "deployment", "web", "--image=example.com/web:1", "--replicas=2")
    before.kubectl("rollout", "status", "deployment/web", "--timeout=150s")
    before.kill()
    after = up("--data-dir", state).ready()
    after.kubectl("scale", "deployment/web", "--replicas=3")
    after.kubectl("rollout", "status", "deployment/web", "--timeout=150s")
    assert len(after.get("pods", "-l", "app=web")["items"]) == 3


def test_a_restart_signs_plans_with_the_same_key(up: Up, tmp_path: Path) -> None:
    state, secret = str(tmp_path / "state"), ("-n", NAMESPACE, "secret", SCHEDULER_RECORDS)
    before = up("--data-dir", state).ready()
    key = before.get(*secret)["data"]["key"]
    before.kill()
    after = up("--data-dir", state).ready()
    assert after.get(*secret)["data"]["key"] == key


def test_a_second_process_on_the_same_directory_is_refused(up: Up, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    first = up("--data-dir", state).ready()
    status, said = up("--data-dir", state).refused()
    assert (status, said) == (2, f"spinney up: --data-dir {state}: another process is using it\n")
    assert first.http("GET", MAPS)[0] == 200
    first.stop()
    up("--data-dir", state).ready()


def test_keys_and_tokens_are_readable_by_their_owner_only(up: Up, tmp_path: Path) -> None:
    state = tmp_path / "state"
    up("--data-dir", str(state), "--host", "0.0.0.0").ready()
    for name in ("admin.token", "ca.key", "server.key", "service-account.key"):
        assert (state / name).stat().st_mode & 0o077 == 0, name
