"""What one pod asks for."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from spinney.api.builtin.node import Node
from spinney.api.placement.problem import ANY_NODE, NodeTerm, PreferredTerm, Term, Toleration
from spinney.core.inventory.counts import Shape
from spinney.core.scheduling.affinity.terms import has_terms
from spinney.core.scheduling.amounts import MOST_ASKED, MOST_OFFERED, offered
from spinney.core.scheduling.cluster import Cluster
from spinney.core.scheduling.gang.pod_shape import PodShape, Shapes, requests
from unit.scheduling.reading_kit import RESOURCES, container, pod

GPU = "nvidia.com/gpu"
SPREAD = "requiredDuringSchedulingIgnoredDuringExecution"


def shape(spec: dict[str, Any], **metadata: Any) -> PodShape:
    return Shapes(RESOURCES).of(pod("p", spec, **metadata))


def asked(spec: dict[str, Any]) -> dict[str, int]:
    return dict(zip(RESOURCES, shape(spec).request, strict=True))


def test_containers_add_up_and_a_pod_is_one_pod() -> None:
    spec = {"containers": [container({"cpu": "500m", "memory": "1Gi"}), container({"cpu": "1", GPU: 2})]}
    assert asked(spec) == {"cpu": 1500, "memory": 2**30, "pods": 1, GPU: 2}


def test_amounts_are_rounded_up() -> None:
    assert asked({"containers": [container({"cpu": "100u", "memory": "1500m"})]})["cpu"] == 1
    assert asked({"containers": [container({"memory": "1500m"})]})["memory"] == 2


def test_the_widest_init_container_counts_when_it_is_more_than_all_containers() -> None:
    spec = {
        "initContainers": [container({"cpu": "4"}), container({"memory": "1Mi"})],
        "containers": [container({"cpu": "1"})],
    }
    assert asked(spec)["cpu"] == 4000
    assert asked(spec)["memory"] == 2**20


def test_a_sidecar_stays_and_init_containers_after_it_run_beside_it() -> None:
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    early, late = container({"cpu": "3"}), container({"cpu": "3"})
    assert asked({"initContainers": [early, sidecar], "containers": [container({"cpu": "1"})]})["cpu"] == 3000
    assert asked({"initContainers": [sidecar, late], "containers": [container({"cpu": "1"})]})["cpu"] == 4000
    assert asked({"initContainers": [sidecar], "containers": [container({"cpu": "5"})]})["cpu"] == 6000


def test_resources_of_the_pod_itself_win_and_overhead_is_added() -> None:
    spec = {
        "containers": [container({"cpu": "1", GPU: 1})],
        "resources": {"requests": {"cpu": "3"}},
        "overhead": {"cpu": "250m"},
    }
    assert asked(spec) == {"cpu": 3250, "memory": 0, "pods": 1, GPU: 1}


def test_k8_a_resource_that_no_node_offers_is_said() -> None:
    assert shape({"containers": [container({"example.com/fpga": 1})]}).unsupported == "no node offers example.com/fpga"
    assert shape({"containers": [container({"example.com/fpga": 0})]}).unsupported == ""


def test_inv1_an_amount_that_is_no_quantity_is_said_and_counts_as_more_than_any_node_offers() -> None:
    found = shape({"containers": [container({"cpu": "many"})]})
    assert found.unsupported == "cpu: many is not a quantity"
    assert found.request[0] == MOST_ASKED


@pytest.mark.parametrize("written", ["9" * 5000, "1e400", "9223372036854775807", 1e40, "9007199254740992"])
def test_inv1_a_pod_larger_than_any_node_fits_no_node(written: str | float) -> None:
    assert asked({"containers": [container({"memory": written})] * 3})["memory"] == MOST_ASKED
    assert offered("memory", written) == MOST_OFFERED < MOST_ASKED


def test_inv1_a_node_that_pods_of_any_size_are_bound_to_is_overused_and_never_wraps() -> None:
    cluster = Cluster()
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "9999"}}}
    cluster.put_node("n", msgspec.convert(node, Node))
    for index in range(2000):
        vast = {"containers": [container({"memory": "9" * 5000})], "nodeName": "n"}
        cluster.put_pod(None, pod(f"p{index}", vast))
    free = cluster.inventory.free(cluster.inventory.slot("n"), waiting=False)
    assert free[1] == 64 * 2**30 - 2000 * MOST_ASKED
    assert cluster.inventory.counts(Shape((0, 1, 1))).total == 0
    assert not cluster.is_sound("n")


def test_many_sidecars_of_many_resources_are_read_in_linear_time() -> None:
    started = [container({f"example.com/{index}": 1}, restartPolicy="Always") for index in range(5000)]
    began = time.process_time()
    assert sum(requests(pod("p", {"initContainers": started})).values()) == 5002
    assert time.process_time() - began < 0.5


def test_a_plain_pod_goes_to_any_node() -> None:
    assert shape({}).filter is ANY_NODE


def test_k8_selector_affinity_and_tolerations_become_the_filter() -> None:
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["h100", "h200"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    wish = {"weight": 7, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}
    found = shape(
        {
            "nodeSelector": {"z": "1", "a": "2"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {
                "nodeAffinity": {
                    SPREAD: {"nodeSelectorTerms": terms},
                    "preferredDuringSchedulingIgnoredDuringExecution": [wish],
                }
            },
        }
    ).filter
    assert found.selector == (("a", "2"), ("z", "1"))
    assert found.tolerations == (Toleration("gpu", "Exists", "", "NoSchedule"),)
    assert found.required == (
        NodeTerm((Term("gpu", "In", ("h100", "h200")),)),
        NodeTerm(fields=(Term("metadata.name", "In", ("n1",)),)),
    )
    assert found.preferred == (PreferredTerm(7, NodeTerm((Term("fast", "Exists"),))),)


def test_required_affinity_without_terms_admits_no_node() -> None:
    affinity: dict[str, Any] = {"nodeAffinity": {SPREAD: {"nodeSelectorTerms": []}}}
    assert shape({"affinity": affinity}).filter.required == ()


def test_k8_host_ports_are_taken_also_by_pods_on_the_host_network() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 90}]
    assert shape({"containers": [container(ports=ports)]}).host_ports == {8080}
    assert shape({"containers": [container(ports=ports)], "hostNetwork": True}).host_ports == {8080, 90}


def anti(key: str = "kubernetes.io/hostname", selector: dict[str, Any] | None = None, **term: Any) -> dict[str, Any]:
    term |= {"topologyKey": key, "labelSelector": selector or {"matchLabels": {"app": "web"}}}
    return {"affinity": {"podAntiAffinity": {SPREAD: [term]}}}


def test_k8_pods_that_keep_apart_on_hosts_share_a_number_that_is_no_port() -> None:
    one = shape(anti(), labels={"app": "web", "pod": "1"})
    other = shape(anti(), labels={"app": "web", "pod": "2"})
    elsewhere = shape(anti(), labels={"app": "web"}, namespace="other")
    (number,) = one.host_ports
    assert number > 65535
    assert other.host_ports == one.host_ports
    assert elsewhere.host_ports != one.host_ports
    assert one.unsupported == ""


def test_k8_pods_that_keep_apart_by_another_label_say_so_for_their_set() -> None:
    found = shape(anti("example.com/rack"), labels={"app": "web"})
    assert found.anti_affinity == ("example.com/rack",)
    assert found.host_ports == frozenset()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(anti(selector={"matchExpressions": [{"key": "a", "operator": "?"}]}), id="unreadable"),
        pytest.param(anti(namespaceSelector={"matchLabels": {"team": "a"}}), id="namespaces by labels"),
    ],
)
def test_k8_anti_affinity_that_can_not_be_read_is_never_ignored(spec: dict[str, Any]) -> None:
    found = shape(spec, labels={"app": "db"})
    assert found.unsupported.startswith(f"affinity.podAntiAffinity.{SPREAD}[0] can not be ")


def test_k8_what_cannot_be_honoured_is_said_with_its_field() -> None:
    spread = [{"whenUnsatisfiable": "ScheduleAnyway"}, {"whenUnsatisfiable": "DoNotSchedule"}]
    said = "topologySpreadConstraints[1] with whenUnsatisfiable DoNotSchedule can not be honoured"
    assert shape({"topologySpreadConstraints": spread}).unsupported == said


def test_k8_a_share_of_a_gpu_is_not_taken_for_none() -> None:
    assert "gpu-fraction" in shape({}, annotations={"gpu-fraction": "0.5"}).unsupported


def test_k17_preferred_terms_have_a_weight_that_says_near_or_apart() -> None:
    terms = [{"weight": 3, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}}]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {"podAffinity": {preferred: terms}, "podAntiAffinity": {preferred: terms}}
    found = shape({"affinity": affinity}, labels={"app": "a"})
    assert [(each.weight, each.term.key, each.term.own) for each in found.affinity_terms.preferred] == [
        (3, "zone", True),
        (-3, "zone", True),
    ]
    assert not has_terms(pod("p", {"affinity": affinity})), "nothing that must hold"


def test_pods_of_one_template_share_one_shape() -> None:
    shapes = Shapes(RESOURCES)
    one, other = pod("a", {"hostname": "a"}), pod("b", {"hostname": "b", "nodeName": "n1"})
    assert shapes.of(one) is shapes.of(other)
    assert shapes.of(one) is not shapes.of(pod("c", {"containers": [container({GPU: "2"})]}))


def test_requests_name_every_resource_whatever_the_axis() -> None:
    found = requests(pod("p", {"containers": [container({"example.com/fpga": 2, "cpu": "1"})]}))
    assert found == {"example.com/fpga": 2, "cpu": 1000, "pods": 1}
