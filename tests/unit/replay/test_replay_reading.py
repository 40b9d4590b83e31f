"""Traces, hosts, levels, rules and settings: what is read, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from spinney.api.placement.problem import Consolidate
from spinney.sim.replay.cluster import Levels, read_hosts, read_levels
from spinney.sim.replay.gang_shapes import GangShapes, Rule, RuleError, default_rules, read_rules
from spinney.sim.replay.measurements import capacity_of
from spinney.sim.replay.occupancy import SettingError, read_settings
from spinney.sim.replay.trace import InputError, Job, Timing, part_of, read_trace, schedule
from unit.replay.replay_kit import GPU, described, trace

TRACES = Path(__file__).parents[3] / "examples" / "traces"
PHILLY = "virtual_cluster,arrival_s,gpus,steps\n"


def lingjun() -> tuple[Levels, tuple[int, ...]]:
    found = read_hosts((TRACES / "lingjun-topology.csv").read_text(), "lingjun-topology.csv", GPU)
    return found.levels, tuple(level.largest for level in capacity_of(found, GPU).levels)


def test_rows_are_put_in_the_order_of_arrival_and_ties_keep_theirs() -> None:
    found = read_trace(PHILLY + "a,7,1,10\nb,3,2,20\na,3,4,30\n", "t.csv")
    assert found.timing is Timing.STEPS
    assert [(job.name, job.arrival_s, job.gpus, job.length) for job in found.jobs] == [
        ("gang-2", 3, 2, 20),
        ("gang-3", 3, 4, 30),
        ("gang-1", 7, 1, 10),
    ]


def test_byte_order_marks_blank_lines_spaces_and_carriage_returns_do_not_matter() -> None:
    found = read_trace("\ufeffarrival_s, gpus ,duration_s\r\n\r\n 1.4, 2 ,3\r\n", "t.csv")
    assert found.jobs == (Job("gang-1", 1, 3, 2),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "t.csv: is empty, expected a header", id="empty"),
        pytest.param("\n\n", "t.csv: is empty, expected a header", id="blank"),
        pytest.param(PHILLY, "t.csv: found no rows under the header", id="no rows"),
        pytest.param("a,b\n1,2\n", "t.csv:1: header: found 'a,b', allowed: arrival_s,gpus,duration_s", id="header"),
        pytest.param("arrival_s,gpus,steps,duration_s\n", "t.csv:1: header", id="two lengths"),
        pytest.param("gpus,gpus\n", "t.csv:1: header: column 'gpus' is there twice", id="twice"),
        pytest.param(
            PHILLY + "a,0,1,5\na,1,x,5\n", "t.csv:3: row 2, column gpus: found 'x', allowed: a whole", id="word"
        ),
        pytest.param(PHILLY + "a,0,0,5\n", "row 1, column gpus: found '0', allowed: a whole number from 1", id="zero"),
        pytest.param(PHILLY + "a,0,-4,5\n", "row 1, column gpus: found '-4'", id="negative"),
        pytest.param(PHILLY + "a,0,1.5,5\n", "row 1, column gpus: found '1.5'", id="fraction"),
        pytest.param(PHILLY + "a,0,,5\n", "row 1, column gpus: found nothing", id="cell"),
        pytest.param(PHILLY + "a,-1,1,5\n", "row 1, column arrival_s: found '-1'", id="before time"),
        pytest.param(PHILLY + "a,nan,1,5\n", "row 1, column arrival_s: found 'nan'", id="nan"),
        pytest.param(PHILLY + "a,inf,1,5\n", "row 1, column arrival_s: found 'inf'", id="endless"),
        pytest.param(PHILLY + "a,0,1,-5\n", "row 1, column steps: found '-5'", id="negative steps"),
        pytest.param(PHILLY + "a,0,1\n", "t.csv:2: row 1: found 3 cells, expected 4", id="short row"),
        pytest.param(PHILLY + 'a,0,"1,5\n', "not CSV", id="quote"),
        pytest.param(PHILLY + "a,0," + "9" * 5000 + ",5\n", "column gpus", id="huge"),
        pytest.param(
            "name,arrival_s,gpus,steps\na,0,1,5\na,1,1,5\n", "t.csv:3: row 2, column name: found 'a'", id="names"
        ),
        pytest.param("arrival_s,gpus,steps,priority\n0,1,5,high\n", "column priority: found 'high'", id="priority"),
    ],
)
def test_a_trace_that_cannot_be_used_is_refused_by_row_and_column(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_trace(text, "t.csv")
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_the_load_is_what_was_asked_for() -> None:
    jobs = read_trace((TRACES / "philly-gangs.csv").read_text(), "philly-gangs.csv")
    assert len(jobs.jobs) == 5714
    assert schedule(jobs, 6776, load=0.6).load == pytest.approx(0.6, abs=1e-4)


def test_a_load_that_endless_gangs_would_not_reach_is_refused() -> None:
    with pytest.raises(InputError, match=r"--load 5 is more than .*, even endless ones: 1\.00"):
        schedule(trace((0, 4, 1), (10, 4, 1)), 4, load=5.0)


def test_gangs_that_all_come_at_once_have_no_load() -> None:
    with pytest.raises(InputError, match="all gangs arrive at once"):
        schedule(trace((0, 4, 1)), 4, load=0.5)


def test_recorded_seconds_are_kept_unless_they_are_stretched() -> None:
    rows = trace((0, 4, 10), (5, 4, 20))
    assert [one.runs_s for one in schedule(rows, 8).arrivals] == [10, 20]
    assert [one.runs_s for one in schedule(rows, 8, stretch=1.5).arrivals] == [15, 30]


def test_pods_without_times_get_them_from_the_seed() -> None:
    pods = read_trace((TRACES / "openb-pods-multigpu50.csv").read_text(), "openb.csv")
    first, again, other = (schedule(pods, 6000, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.load == pytest.approx(0.7, abs=1e-3)


def test_a_part_of_a_trace_is_its_first_gangs() -> None:
    assert [job.gpus for job in part_of(trace((0, 4, 1), (5, 1, 1), (9, 2, 1)), 2, 8).jobs] == [32, 8]


def test_lingjun_is_a_network_of_four_levels_in_which_tor_names_repeat() -> None:
    levels, largest = lingjun()
    assert [level.name for level in levels.levels] == ["core", "aggregation", "tor", "host"]
    assert largest == (6776, 2896, 64, 8)


def test_openb_nodes_have_no_network() -> None:
    found = read_hosts((TRACES / "openb-gpu-nodes.csv").read_text(), "openb-gpu-nodes.csv", GPU)
    assert [level.name for level in found.levels.levels] == ["host"]
    assert capacity_of(found, GPU).nodes == len(found.nodes) == 1213


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "a,b\n1,2\n", "n.csv:1: header: found 'a,b', allowed: host,core,aggregation,tor or sn,", id="header"
        ),
        pytest.param("host,core,aggregation,tor\n", "found no rows", id="no rows"),
        pytest.param(
            "host,core,aggregation,tor\nh,c,,t\n", "column aggregation: found nothing, allowed: a name", id="gap"
        ),
        pytest.param("host,core,aggregation,tor\nh,c,a,t\nh,c,a,t\n", "host 'h' is there twice", id="twice"),
        pytest.param("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,-2,T4\n", "column gpu: found '-2'", id="negative"),
    ],
)
def test_a_sheet_of_hosts_that_cannot_be_used_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_hosts(text, "n.csv", GPU)
    assert message in str(refused.value)


def test_nodes_without_the_resource_are_refused() -> None:
    with pytest.raises(InputError, match=r"no node has amd\.com/gpu"):
        read_hosts("levels: [{name: host, count: 1}]\n", "n.yaml", "amd.com/gpu")


def test_plain_nodes_have_the_levels_that_would_be_discovered() -> None:
    node = "{{kind: Node, metadata: {{name: {0}, labels: {{{1}}}}}, status: {{capacity: {{nvidia.com/gpu: 8}}}}}}\n"
    racks = [node.format(f"n{at}", f"topology.kubernetes.io/rack: r{at // 2}") for at in range(4)]
    found = read_hosts("---\n".join(racks), "n.yaml", GPU)
    assert [level.name for level in found.levels.levels] == ["rack", "host"]


def test_a_topology_file_names_the_levels() -> None:
    text = (TRACES.parent / "topology.yaml").read_text()
    found = read_levels(text, "topology.yaml")
    assert (found.name, [level.name for level in found.levels]) == ("gpu-hall", ["zone", "block", "rack", "host"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found 0 topologies, expected one"),
        ("a: [\n", "not YAML"),
        ("kind: Node\n", "found 0 topologies"),
        ("kind: ClusterTopology\nmetadata: {name: t}\nspec: {levels: 3}\n", "t.yaml: ClusterTopology: "),
        ("[1]\n", "found 0 topologies"),
    ],
)
def test_a_topology_file_that_cannot_be_used_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_levels(text, "t.yaml")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("gpus", "pods", "size", "required", "preferred"),
    [
        (1, 1, 1, "host", None),
        (7, 1, 7, "host", None),
        (8, 1, 8, "host", None),
        (16, 2, 8, "tor", None),
        (20, 3, 8, "tor", None),
        (64, 8, 8, "tor", None),
        (72, 9, 8, "aggregation", "tor"),
        (2896, 362, 8, "aggregation", "tor"),
        (2904, 363, 8, "core", "tor"),
        (6784, 848, 8, None, "tor"),
    ],
)
def test_how_gpus_become_pods_and_levels(
    gpus: int, pods: int, size: int, required: str | None, preferred: str | None
) -> None:
    levels, largest = lingjun()
    shaping = GangShapes(levels.name, GPU, 8, default_rules(levels, 8, largest))
    root = shaping.gang(Job("g", 0, 1, gpus), ("pods", GPU)).root
    names = {level.key: level.name for level in levels.levels}
    assert (root.pods[0].count, root.pods[0].min, root.pods[0].request) == (pods, pods, (1, size))
    assert (names.get(root.required or ""), names.get(root.preferred or "")) == (required, preferred)


def test_nobody_is_asked_to_fit_into_a_rack_smaller_than_itself() -> None:
    levels = described(racks=2, hosts=2, gpus=8).levels
    assert default_rules(levels, 8, (32, 16, 8))[1:] == (
        Rule(16, "example.com/rack"),
        Rule(32, "example.com/block", "example.com/rack"),
        Rule(None, None, "example.com/rack"),
    )


def test_rules_are_read_by_the_names_of_levels_or_by_their_labels() -> None:
    assert read_rules(["8=host", "32=example.com/rack", "*=-:block"], described().levels) == (
        Rule(8, "kubernetes.io/hostname"),
        Rule(32, "example.com/rack"),
        Rule(None, None, "example.com/block"),
    )


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["rack"], "found 'rack', allowed: GPUS=REQUIRED"),
        (["8=tor"], "found level 'tor', allowed: - or a level of described: block, rack, host"),
        (["8=rack", "8=host"], "--rule 2: found a number that is not above the one before"),
        (["*=rack", "8=host"], "smallest first"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(rules: list[str], message: str) -> None:
    with pytest.raises(RuleError) as refused:
        read_rules(rules, described().levels)
    assert message in str(refused.value)


@pytest.mark.parametrize("written", ["", "best", "binpack+", "binpack+fifo+fifo", "fifo", "spread+moves"])
def test_a_setting_that_there_is_not_is_refused(written: str) -> None:
    with pytest.raises(SettingError, match="allowed: binpack or spread"):
        read_settings([written], Consolidate())


def test_a_setting_is_replayed_once() -> None:
    with pytest.raises(SettingError, match="'spread' twice"):
        read_settings(["spread", "spread"], Consolidate())
