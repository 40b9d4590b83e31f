"""kopf, unmodified: handlers run on creation, change and deletion of a custom object."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_kit.objects import SPEC_AND_STATUS, crd, custom
from cluster_kit.server import eventually
from cluster_kit.space import Space

OPERATOR = Path(__file__).with_name("operator_for_kopf.py")
START_S = 120.0


@pytest.fixture
def widgets(cluster: Space, unique: str) -> str:
    group = f"{unique}.example.com"
    schema = {
        "spec": SPEC_AND_STATUS["spec"],
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    cluster.establish(crd(group, schema, subresources={"status": {}}))
    return f"{group}/v1/widgets"


@pytest.fixture
def operator(space: Space, widgets: str, tmp_path: Path) -> Iterator[Path]:
    log = tmp_path / "kopf.log"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(space.server.kubeconfig),
        "WIDGET_GROUP": widgets.split("/")[0],
    }
    command = [sys.executable, "-m", "kopf", "run", "--namespace", space.namespace, "--standalone", str(OPERATOR)]
    with log.open("w") as sink, subprocess.Popen(command, env=environ, stdout=sink, stderr=sink) as running:
        yield log
        running.terminate()
        running.wait(20)


def test_handlers_run(space: Space, widgets: str, operator: Path) -> None:
    group = widgets.split("/")[0]
    space.create(widgets, custom(group, "a", spec={"size": 1})).ok(201)

    def phase() -> str:
        return space.get(widgets, "a").ok().get("status", {}).get("phase", "")

    def told() -> str:
        return operator.read_text()[-2000:]

    eventually(lambda: phase() == "created with 1", f"the creation is handled: {told()}", START_S)
    assert space.get(widgets, "a").ok()["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    space.patch(widgets, "a", {"spec": {"size": 5}}).ok(200)
    eventually(lambda: phase() == "resized from 1 to 5", f"the change is handled: {told()}", START_S)
    eventually(lambda: "Resized" in [each["reason"] for each in space.list("events")["items"]], "the event is there")
    space.delete(widgets, "a").ok(200)
    eventually(lambda: not space.exists(widgets, "a"), f"the deletion is handled: {told()}", START_S)
