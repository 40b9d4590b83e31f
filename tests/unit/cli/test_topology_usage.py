"""`spinney topology usage`: which sets use which topology, and to which of them topology applies (S2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from spinney.cli.commands import topology as command
from spinney.cli.main import cli
from spinney.cli.render.topology_report import usage_table
from spinney.cli.topology_sources import read_usage
from spinney.core.expansion.settings import Settings
from spinney.core.view.topology_usage import TopologyUse, topology_uses
from spinney.drive.client.errors import ConfigError
from spinney.sim.event_loop import Sim, run
from spinney.sim.world import World
from unit.operator.operator_world import clique, group, in_world, podcliqueset
from unit.operator.topologies import LEVELS, packed, restarted, settings, topology

USES = [
    TopologyUse("gb200", "a/one", True),
    TopologyUse("grove-topology (default)", "b/two", False, "no topologyConstraint"),
]


def listed(*manifests: dict[str, Any], then: Settings | None = None) -> list[TopologyUse]:
    """What a world with these objects answers when the operator has seen them, and been restarted with `then`."""

    async def scenario(world: World) -> list[TopologyUse]:
        await world.apply(list(manifests))
        await world.settle()
        if then is not None:
            await restarted(world, then)
        return await read_usage(world.client)

    return in_world(scenario, settings(), nodes="", binds=False)


def test_s2_a_set_is_listed_with_the_topology_it_names_or_with_the_default() -> None:
    named = podcliqueset("n", [clique("a")], clusterTopologyName="gb200", topologyConstraint=packed("rack"))
    other = podcliqueset("i", [clique("a")], topologyConstraint=packed("rack"))
    assert listed(topology("gb200", LEVELS), named, other) == [
        TopologyUse("gb200", "default/n", True),
        TopologyUse("grove-topology (default)", "default/i", True),
    ]


def test_s2_topology_does_not_apply_to_a_set_without_any_constraint() -> None:
    assert listed(podcliqueset("f", [clique("a")])) == [
        TopologyUse("grove-topology (default)", "default/f", False, "no topologyConstraint")
    ]


@pytest.mark.parametrize("where", ["set", "group", "clique"])
def test_s2_a_constraint_anywhere_is_enough(where: str) -> None:
    own: dict[str, Any] = {"topologyConstraint": packed("rack")}
    groups = [group("g", ["a"], **(own if where == "group" else {}))]
    cliques = [clique("a", **(own if where == "clique" else {}))]
    (found,) = listed(podcliqueset("p", cliques, groups, **(own if where == "set" else {})))
    assert found.applies


def test_s2_a_missing_topology_and_a_missing_level_are_told() -> None:
    lost = podcliqueset("lost", [clique("a")], clusterTopologyName="gone", topologyConstraint=packed("rack"))
    torn = podcliqueset("torn", [clique("a")], clusterTopologyName="thin", topologyConstraint=packed("rack"))
    thin = topology("thin", {"zone": LEVELS["zone"]})
    assert listed(thin, lost, torn) == [
        TopologyUse("gone", "default/lost", False, 'ClusterTopology "gone" not found'),
        TopologyUse("thin", "default/torn", True, "Unavailable topology domains: [rack]"),
    ]


def test_s2_with_topology_switched_off_it_applies_to_nobody() -> None:
    (found,) = listed(podcliqueset("p", [clique("a")], topologyConstraint=packed("rack")), then=settings(None))
    assert (found.applies, "disabled" in found.why) == (False, True)


def test_p10_the_newer_spelling_of_the_reference_is_read_as_well() -> None:
    newer = {"topologyName": "gb200", "pack": {"required": "rack"}}
    (found,) = listed(topology("gb200", LEVELS), podcliqueset("p", [clique("a")], topologyConstraint=newer))
    assert found.topology == "gb200"


def test_rows_are_sorted_byte_by_byte_by_topology_and_set() -> None:
    sets = [podcliqueset(name, [clique("a")]) for name in ("b", "a-b", "a")]
    named = podcliqueset("z", [clique("a")], clusterTopologyName="gb200", topologyConstraint=packed("rack"))
    assert [one.podcliqueset for one in listed(*sets, named)] == ["default/z", "default/a", "default/a-b", "default/b"]


def test_a_set_that_cannot_be_read_is_listed_all_the_same() -> None:
    template = {"clusterTopologyName": "gb200", "cliques": "none"}
    odd = {"metadata": {"namespace": "a", "name": "odd"}, "spec": {"template": template}}
    (found,) = topology_uses([odd])
    assert (found.topology, found.podcliqueset, found.applies) == ("gb200", "a/odd", False)
    assert found.why.startswith("cannot be read: spec.template.cliques: ")


def test_a_cluster_without_our_kinds_is_told_what_to_apply() -> None:
    async def main(sim: Sim) -> None:
        async with World(sim.clock, sim.dice) as world:
            with pytest.raises(ConfigError, match=r"does not serve podcliquesets.grove.io: apply `spinney manifests"):
                await read_usage(world.client)

    run(main)


def test_the_table_has_a_column_for_whether_topology_applies() -> None:
    assert usage_table(USES, headers=True).splitlines() == [
        "TOPOLOGY                   PODCLIQUESET   APPLIES",
        "gb200                      a/one          yes",
        "grove-topology (default)   b/two          no: no topologyConstraint",
    ]
    assert usage_table([], headers=False) == ""


def test_a_name_cannot_command_the_terminal() -> None:
    assert "\x1b" not in usage_table([TopologyUse("\x1b[2J", "a/b", True)], headers=False)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_the_same_as_data(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "query_cluster", lambda *given: USES)
    done = CliRunner().invoke(cli, ["topology", "usage", "-o", output])
    found = json.loads(done.output) if output == "json" else yaml.safe_load(done.output)
    assert found == [
        {"topology": "gb200", "podCliqueSet": "a/one", "applies": True},
        {
            "topology": "grove-topology (default)",
            "podCliqueSet": "b/two",
            "applies": False,
            "why": "no topologyConstraint",
        },
    ]


def test_a_cluster_that_cannot_be_read_is_one_line_and_status_2() -> None:
    done = CliRunner().invoke(cli, ["topology", "usage", "--kubeconfig", "/nowhere/at/all"])
    assert done.exit_code == 2
    assert done.output.startswith("spinney topology usage: ")
    assert len(done.output.splitlines()) == 1
