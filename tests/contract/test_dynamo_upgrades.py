"""What happens to deployments when the stack is restarted, as it was or told something else, on both servers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from cluster_kit.servers import SERVERS
from contract.dynamo_stages import BETA, LEVELS, Graphs, component, configuration, deployment, graphs_on


@pytest.fixture(params=SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Starts:
    """Starts of one stack that keeps its state."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._kind, self._directory, self._count = kind, directory, 0

    def with_levels(self, levels: dict[str, str] | None) -> AbstractContextManager[Graphs]:
        self._count += 1
        config = self._directory / f"config{self._count}.yaml"
        config.write_text(configuration(levels))
        arguments = ("--config", str(config), "--data-dir", str(self._directory / "state"))
        return graphs_on(self._kind, self._directory / f"up{self._count}", *arguments)


PACKED = deployment(
    "packed",
    component("Decode", gpus=1, topologyConstraint={"packDomain": "rack"}),
    topologyConstraint={"packDomain": "zone"},
)
PLAIN = deployment("plain", component("Decode", gpus=1))
LOST = "Topology level 'rack' is no longer available in the cluster topology"


def test_d5_d9_d10_levels_go_and_come_back_under_deployments_that_stay_as_they_are(kind: str, tmp_path: Path) -> None:
    starts = Starts(kind, tmp_path)
    with starts.with_levels(LEVELS) as graphs:
        for each in (PACKED, PLAIN):
            graphs.apply(each)
            graphs.ready(each["metadata"]["name"])
        graphs.says("packed", "TopologyConstraintsEnforced", "True", "AllTopologyLevelsAvailable")
        first = state(graphs)
    with starts.with_levels({domain: key for domain, key in LEVELS.items() if domain != "rack"}) as graphs:
        for name in ("TopologyConstraintsEnforced", "TopologyLevelsAvailable"):
            assert graphs.says("packed", name, "False", "TopologyLevelsUnavailable") == LOST
        assert graphs.condition("packed", "Ready")[0] == "True"
        assert graphs.condition("plain", "TopologyConstraintsEnforced") == ("", "", "")
        warning = ("Warning", "TopologyLevelsUnavailable", f"Topology constraints no longer enforced: {LOST}")
        assert warning in graphs.events("packed")
        assert state(graphs) == first
        assert "no longer enforced" in graphs.stack.stderr
    with starts.with_levels(LEVELS) as graphs:
        graphs.says("packed", "TopologyConstraintsEnforced", "True", "AllTopologyLevelsAvailable")
        applied = [each for each in graphs.events("packed") if each[1] == "TopologyConstraintsApplied"]
        assert {each[0] for each in applied} == {"Normal"}
        assert len(applied) == 2
        assert state(graphs) == first
    with starts.with_levels(None) as graphs:
        graphs.says("packed", "TopologyConstraintsEnforced", "False", "TopologyAwareSchedulingDisabled")
        assert state(graphs) == first


def state(graphs: Graphs) -> tuple[object, ...]:
    """Generations of deployments and sets, and the pods."""
    found: list[object] = []
    for name in ("packed", "plain"):
        found.append(graphs.get(BETA, name)["metadata"]["generation"])
        found.append(graphs.get("podcliqueset", name)["metadata"]["generation"])
        found.append(frozenset(graphs.uids(name)))
    return tuple(found)


def test_d7_d13_with_topology_off_constraints_are_refused_and_the_refusal_is_told(kind: str, tmp_path: Path) -> None:
    with Starts(kind, tmp_path).with_levels(None) as graphs:
        said = graphs.refused(PACKED)
        assert 'Invalid value: "grove-topology": references a ClusterTopology resource that was not found' in said
        levels = [{"domain": domain, "key": key} for domain, key in LEVELS.items()]
        graphs.apply(
            {
                "apiVersion": "grove.io/v1alpha1",
                "kind": "ClusterTopology",
                "metadata": {"name": "mine"},
                "spec": {"levels": levels},
            }
        )
        constraint = {"packDomain": "zone", "clusterTopologyName": "mine"}
        graphs.apply(deployment("refused", component("Decode"), topologyConstraint=constraint))
        message = graphs.says("refused", "Ready", "False", "failed_to_reconcile_the_resources")
        assert "topology support is not enabled in the operator" in message
        assert graphs.get(BETA, "refused")["status"]["state"] == "failed"
        assert ("Warning", "failed_to_reconcile_the_resources", message) in graphs.events("refused")
        graphs.apply(PLAIN)
        graphs.ready("plain")
