"""ClusterTopologies and ClusterTopologyBindings side by side (T8): which counts, and under which names."""

from __future__ import annotations

import msgspec

from spinney.api.kinds.clustertopology import (
    ClusterTopology,
    ClusterTopologyBinding,
    by_known_name,
    counting,
    find_levels,
    published,
)


def topology(name: str, key: str) -> ClusterTopology:
    spec = {"levels": [{"domain": "rack", "key": key}]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterTopology)


def binding(name: str, key: str, *references: str) -> ClusterTopologyBinding:
    bound = [{"schedulerName": f"s{index}", "topologyReference": each} for index, each in enumerate(references)]
    spec = {"levels": [{"domain": "rack", "key": key}], "schedulerTopologyBindings": bound}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ClusterTopologyBinding)


def test_t8_of_one_name_the_binding_counts() -> None:
    older, newer, other = topology("a", "old"), binding("a", "new"), topology("b", "b")
    assert counting([older, other], [newer]) == (newer, other)
    assert find_levels("a", [newer], older) is newer
    assert find_levels("b", [newer], other) is other
    assert find_levels("c", [newer], None) is None


def test_t8_a_binding_is_known_by_what_it_is_bound_to_unless_that_is_a_topology_of_its_own() -> None:
    bound = binding("a", "a", "theirs", "b")
    own = topology("b", "b")
    assert find_levels("theirs", [bound], None) is bound
    assert find_levels("b", [bound], own) is own
    assert by_known_name([bound, own]) == {"a": bound, "b": own, "theirs": bound}


def test_t8_what_is_planned_with_has_one_topology_for_every_name() -> None:
    found = published([topology("a", "old"), topology("b", "b")], [binding("a", "new", "theirs")])
    assert [(each.metadata.name, each.spec.levels[0].key) for each in found] == [
        ("a", "new"),
        ("b", "b"),
        ("theirs", "new"),
    ]
    assert {type(each) for each in found} == {ClusterTopology}
