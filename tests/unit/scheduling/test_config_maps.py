"""Which ConfigMaps a pod needs, and that it waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from spinney.api.builtin.pod import Pod
from spinney.core.scheduling.gang.parsed_gang import Context
from unit.scheduling.reading_kit import RESOURCES, container, pod, reading

Json = dict[str, Any]
KEY = {"name": "needed", "key": "k"}
MOUNTED = [{"name": "v", "mountPath": "/v"}]


def of(*containers: Json, **spec: Any) -> Pod:
    return pod("p", {"containers": list(containers) or [container()], **spec})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            of(container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": KEY}}])), "containers[main].env", id="env"
        ),
        pytest.param(
            of(container(envFrom=[{"configMapRef": {"name": "needed"}}])), "containers[main].envFrom", id="envFrom"
        ),
        pytest.param(
            of(initContainers=[container(envFrom=[{"configMapRef": {"name": "needed"}}])]),
            "containers[main].envFrom",
            id="init container",
        ),
        pytest.param(
            of(container(volumeMounts=MOUNTED), volumes=[{"name": "v", "configMap": {"name": "needed"}}]),
            "volumes[v]",
            id="volume",
        ),
        pytest.param(
            of(
                container(volumeMounts=MOUNTED),
                volumes=[{"name": "v", "projected": {"sources": [{"configMap": {"name": "needed"}}]}}],
            ),
            "volumes[v]",
            id="projected",
        ),
    ],
)
def test_k8_a_pod_needs_the_config_maps_that_it_names(found: Pod, expected: str) -> None:
    assert found.spec.config_maps == {"needed": expected}


OPTIONAL = {"name": "needed", "optional": True}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(of(container(envFrom=[{"configMapRef": OPTIONAL}])), id="optional envFrom"),
        pytest.param(
            of(container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {**OPTIONAL, "key": "k"}}}])),
            id="optional env",
        ),
        pytest.param(
            of(container(volumeMounts=MOUNTED), volumes=[{"name": "v", "configMap": OPTIONAL}]), id="optional volume"
        ),
        pytest.param(of(volumes=[{"name": "v", "configMap": {"name": "needed"}}]), id="mounted by nobody"),
        pytest.param(of(container(envFrom=[{"secretRef": {"name": "needed"}}])), id="a Secret"),
        pytest.param(of(container(env=[{"name": "A", "value": "needed"}])), id="a value"),
        pytest.param(
            of(
                container(volumeMounts=MOUNTED),
                volumes=[{"name": "v", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}],
            ),
            id="what every namespace has",
        ),
    ],
)
def test_k8_a_pod_does_not_need_a_config_map_that_is_optional_or_not_used(found: Pod) -> None:
    assert found.spec.config_maps is None


def test_of_environments_and_mounts_only_the_config_maps_are_kept() -> None:
    """There are a hundred thousand pods."""
    found = of(container(env=[{"name": "A", "value": "b"}], volumeMounts=MOUNTED), volumes=[{"name": "v"}])
    (kept,) = found.spec.containers
    assert (kept.env, kept.env_from, kept.volume_mounts) == ((), (), ())


def test_k8_a_gang_without_its_config_maps_is_held_with_all_their_names() -> None:
    pods = [of(container(envFrom=[{"configMapRef": {"name": name}} for name in ("here", "a", "b")]))]
    there = Context(RESOURCES, has_config_map=lambda namespace, name: (namespace, name) == ("ns", "here"))
    wanted = 'configmap "{}" not found, which containers[main].envFrom names'
    (leaf,) = reading({"minMember": 1}, pods, there).gang.root.pods
    assert leaf.unsupported == "; ".join(map(wanted.format, "ab"))
