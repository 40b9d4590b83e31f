"""client-go and controller-runtime, unmodified: the life of an object of every kind through each of their clients."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

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

Steps = dict[tuple[str, str], list[str]]
"""What was tried with a kind by a client, in order."""


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


def driven(program: Path, space: Space) -> tuple[Steps, list[str]]:
    """Every step that the program takes with this server, and what went wrong."""
    install_our_kinds(space.server)
    told = {"kubeconfig": space.server.kubeconfig, "namespace": space.namespace, "objects": OBJECTS}
    command = [str(program), *(f"--{key}={value}" for key, value in told.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    steps, wrong = defaultdict(list), [done.stderr] if done.returncode else []
    for line in done.stdout.splitlines():
        step = json.loads(line)
        steps[step["kind"], step["client"]].append(step["step"])
        if "error" in step:
            wrong.append(f"{step['kind']}, {step['client']}, {step['step']}: {step['error']}")
    return dict(steps), wrong


def kept(steps: Steps, kind: str, directory: Path) -> None:
    """For the comparison, in whichever process it runs."""
    draft = directory / f"client-go-{kind}.draft"
    draft.write_text(json.dumps([[*key, value] for key, value in sorted(steps.items())]))
    draft.rename(draft.with_suffix(".json"))


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.usefixtures("history_to_keep")
def test_every_step_with_every_kind_succeeds(client_go: Path, space: Space, run_directory: Path) -> None:
    steps, wrong = driven(client_go, space)
    assert wrong == []
    assert sum(map(len, steps.values())) > 3000
    kept(steps, space.server.kind, run_directory)


@pytest.mark.real
@pytest.mark.timeout(2 * PATIENCE_S + 60)
@pytest.mark.usefixtures("history_to_keep")
def test_both_servers_lead_the_clients_through_the_same_steps(
    client_go: Path, _embedded: Server, _real: Server, unique: str, run_directory: Path
) -> None:
    """Which verbs and subresources are tried follows from what a server says of its kinds."""
    found: list[Any] = []
    for server in (_embedded, _real):
        path = run_directory / f"client-go-{server.kind}.json"
        if not path.exists():
            space = Space(server, unique)
            Space(server, "").create("namespaces", {"metadata": {"name": unique}}).ok(201)
            kept(driven(client_go, space)[0], server.kind, run_directory)
            Space(server, "").delete("namespaces", unique)
        found.append(json.loads(path.read_text()))
    assert found[0] == found[1]


def test_there_is_an_object_of_every_kind_that_is_served() -> None:
    builtin = {(one.group_version, one.kind) for one in builtin_resources()}
    ours = {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
        for crd in all_crds()
        for version in crd["spec"]["versions"]
    }
    samples = [one["object"] for one in yaml.safe_load(OBJECTS.read_text())]
    assert {(one["apiVersion"], one["kind"]) for one in samples} == (builtin | ours) - CONVERTED - SUBRESOURCES
