"""Paths and what they mean."""

from __future__ import annotations

import pytest

from kube_embedded.base.http import Target, parse_target


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/api/v1/pods", Target("", "v1", "pods"), id="all namespaces"),
        pytest.param("/api/v1/namespaces/a/pods", Target("", "v1", "pods", "a"), id="one namespace"),
        pytest.param("/api/v1/namespaces/a/pods/p", Target("", "v1", "pods", "a", "p"), id="one pod"),
        pytest.param(
            "/api/v1/namespaces/a/pods/p/binding", Target("", "v1", "pods", "a", "p", "binding"), id="subresource"
        ),
        pytest.param("/api/v1/namespaces", Target("", "v1", "namespaces"), id="namespaces"),
        pytest.param("/api/v1/namespaces/a", Target("", "v1", "namespaces", "", "a"), id="one namespace object"),
        pytest.param(
            "/api/v1/namespaces/a/status", Target("", "v1", "namespaces", "", "a", "status"), id="status of a namespace"
        ),
        pytest.param(
            "/api/v1/namespaces/a/finalize", Target("", "v1", "namespaces", "", "a", "finalize"), id="finalize"
        ),
        pytest.param("/apis/apps/v1/deployments", Target("apps", "v1", "deployments"), id="group"),
        pytest.param("/api/v1/nodes/n%2Fx", Target("", "v1", "nodes", "", "n/x"), id="escaped name"),
        pytest.param("/api/v1/pods/", Target("", "v1", "pods"), id="slash at the end"),
        pytest.param("/api/v1", None, id="a version is no resource"),
        pytest.param("/apis/apps/v1", None, id="a group version is no resource"),
        pytest.param("/version", None, id="a page"),
        pytest.param("/api/v1//pods", None, id="empty part"),
        pytest.param("/api/v1/nodes/a/b/c", None, id="too deep"),
    ],
)
def test_a_path_names_a_resource_or_nothing(path: str, expected: Target | None) -> None:
    assert parse_target(path) == expected
