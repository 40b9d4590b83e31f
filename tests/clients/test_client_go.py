"""client-go and controller-runtime, unmodified: the life of an object of every kind through each of their clients."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import pytest
import yaml

from cluster_kit.real_programs import CLIENT_GO, client_go_program
from cluster_kit.server import Server
from cluster_kit.space import Space
from kube_embedded.builtins.catalog import builtin_resources
from spinney.api.crds import all_crds

OBJECTS = CLIENT_GO.module / "objects.yaml"
CONVERTED = {("nvidia.com/v1alpha1", "DynamoGraphDeployment")}
"""Served where somebody converts it."""
SUBRESOURCES = {("v1", "Binding")}
"""Created below pods."""
PATIENCE_S = 400.0


class Trial(TypedDict):
    """`steps`: what was tried with a kind by a client, in order; `wrong`: steps that failed, and how."""

    steps: dict[str, list[str]]
    wrong: list[str]


@pytest.fixture(scope="session")
def client_go() -> Path:
    return client_go_program()


def install_our_kinds(server: Server) -> None:
    """Definitions are shared by all tests and stay."""
    cluster = Space(server, "")
    for definition in all_crds():
        cluster.apply("customresourcedefinitions", definition, force="true").ok(200, 201)
    for definition in all_crds():
        cluster.established(definition["metadata"]["name"])


def driven(program: Path, server: Server, namespace: str) -> Trial:
    """Every step that the program takes with this server, and what went wrong."""
    install_our_kinds(server)
    Space(server, "").create("namespaces", {"metadata": {"name": namespace}}).ok(201)
    told = {"kubeconfig": server.kubeconfig, "namespace": namespace, "objects": OBJECTS}
    command = [str(program), *(f"--{key}={value}" for key, value in told.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    Space(server, "").delete("namespaces", namespace)
    steps, wrong = defaultdict(list), [done.stderr] if done.returncode else []
    for line in done.stdout.splitlines():
        step = json.loads(line)
        steps[f"{step['kind']}, {step['client']}"].append(step["step"])
        if "error" in step:
            wrong.append(f"{step['kind']}, {step['client']}, {step['step']}: {step['error']}")
    return {"steps": dict(steps), "wrong": wrong}


@pytest.fixture
def trial(client_go: Path, unique: str, run_directory: Path, history_to_keep: None) -> Callable[[Server], Trial]:
    """What the program finds on a server: tried once for all tests of a run, in whichever processes they are."""

    def of(server: Server) -> Trial:
        path = run_directory / f"client-go-{server.kind}.json"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                path.write_text(json.dumps(driven(client_go, server, unique)))
            found: Trial = json.loads(path.read_text())
        return found

    return of


@pytest.mark.timeout(2 * PATIENCE_S)
def test_every_step_with_every_kind_succeeds(server: Server, trial: Callable[[Server], Trial]) -> None:
    found = trial(server)
    assert found["wrong"] == []
    assert sum(map(len, found["steps"].values())) > 3000


@pytest.mark.real
@pytest.mark.timeout(2 * PATIENCE_S)
def test_both_servers_lead_the_clients_through_the_same_steps(
    _embedded: Server, _real: Server, trial: Callable[[Server], Trial]
) -> None:
    """Which verbs and subresources are tried follows from what a server says of its kinds."""
    assert trial(_embedded)["steps"] == trial(_real)["steps"]


def test_there_is_an_object_of_every_kind_that_is_served() -> None:
    builtin = {(one.group_version, one.kind) for one in builtin_resources()}
    ours = {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
        for crd in all_crds()
        for version in crd["spec"]["versions"]
    }
    samples = [one["object"] for one in yaml.safe_load(OBJECTS.read_text())]
    assert {(one["apiVersion"], one["kind"]) for one in samples} == (builtin | ours) - CONVERTED - SUBRESOURCES
