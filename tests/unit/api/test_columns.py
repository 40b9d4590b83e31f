"""What `kubectl get` shows of the kinds that are looked at most."""

from __future__ import annotations

from typing import Any

import pytest

from kube_embedded.base.resource import Context
from kube_embedded.customresources.jsonpath import Table
from spinney.api.crds.catalog import crd

Json = dict[str, Any]
LEVELS = [{"domain": "zone", "key": "z"}, {"domain": "rack", "key": "r"}, {"domain": "host", "key": "h"}]
WAITS = {"type": "UnschedulableOnNodePool", "status": "True", "reason": "Unschedulable", "message": "short of 1 GPU"}
SCHEDULED = {"type": "Scheduled", "status": "False", "reason": "MinimumNotScheduled", "message": "worker 0/9"}


def shown(kind: str, obj: Json) -> dict[str, Any]:
    table = Table(crd(kind)["spec"]["versions"][-1]["additionalPrinterColumns"])
    row = table.row({"metadata": {"name": "it"}, **obj}, Context(now_s=0.0))
    return {column.name: cell for column, cell in zip(table.columns, row, strict=True) if cell is not None}


@pytest.mark.parametrize(
    ("kind", "obj", "expected"),
    [
        (
            "PodGroup",
            {
                "metadata": {"name": "it", "annotations": {"spinney.dev/placement-score": "0.8036"}},
                "spec": {"queue": "research", "minMember": 4, "topologyConstraint": {"topology": "hall"}},
                "status": {
                    "schedulingConditions": [WAITS],
                    "resourcesStatus": {"allocated": {"nvidia.com/gpu": "32"}},
                },
            },
            {"Queue": "research", "Min": 4, "Waiting": "Unschedulable", "GPUs": "32", "Score": "0.8036"}
            | {"Topology": "hall", "Message": "short of 1 GPU"},
        ),
        (
            "PodGang",
            {"status": {"phase": "Pending", "conditions": [SCHEDULED], "placementScore": 0.5}},
            {"Phase": "Pending", "Scheduled": "False", "Reason": "MinimumNotScheduled", "Score": 0.5}
            | {"Message": "worker 0/9"},
        ),
        (
            "Queue",
            {
                "spec": {"parentQueue": "all", "resources": {"gpu": {"quota": 64, "limit": -1}}},
                "status": {"allocated": {"nvidia.com/gpu": "32"}, "requested": {"nvidia.com/gpu": "40"}},
            },
            {"Parent": "all", "GPU-Quota": 64, "GPU-Limit": -1, "GPUs-Used": "32", "GPUs-Requested": "40"},
        ),
        (
            "Topology",
            {"spec": {"levels": [{"nodeLabel": "z"}, {"nodeLabel": "r"}]}},
            {"Level-1": "z", "Level-2": "r"},
        ),
        *(
            (kind, {"spec": {"levels": LEVELS}}, {"Domains": "zone", "Level-2": "rack", "Level-3": "host"})
            for kind in ("ClusterTopology", "ClusterTopologyBinding")
        ),
    ],
)
def test_columns_say_what_matters(kind: str, obj: Json, expected: dict[str, Any]) -> None:
    assert shown(kind, obj) == {"Name": "it", **expected}
