"""Where volumes and claims let a pod run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.api.builtin.claims import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    ResourceClaim,
    StorageClass,
)
from spinney.api.builtin.pod import Pod
from spinney.api.placement.problem import Node, NodeFilter, NodeTerm, Term
from spinney.core.inventory.filters import admits
from spinney.core.scheduling.gang.parsed_gang import Context, shape_in
from spinney.core.scheduling.gang.pod_shape import Shapes
from spinney.core.scheduling.volumes import Reach, Volumes, narrowed, reach
from unit.scheduling.reading_kit import RESOURCES, member, pod, reading

ZONE_A = {"key": "zone", "operator": "In", "values": ["a"]}
ALONE = {"volumeName": "pv", "accessModes": ["ReadWriteOncePod"]}
IN_A = NodeTerm((Term("zone", "In", ("a",)),))


def claim(name: str = "data", volume: str = "", phase: str = "", storage: str | None = "late", **meta: Any) -> Any:
    body = {
        "metadata": {"name": name, "namespace": "ns", **meta},
        "spec": {"volumeName": volume, "storageClassName": storage},
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }
    return msgspec.convert(body, PersistentVolumeClaim)


def volume(name: str = "pv", *terms: dict[str, Any]) -> PersistentVolume:
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}}
    spec = {"nodeAffinity": affinity} if terms else {}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, PersistentVolume)


def storage(name: str, mode: str = "WaitForFirstConsumer", provisioner: str = "csi", *values: str) -> StorageClass:
    body: dict[str, Any] = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    if values:
        expression = {"key": "zone", "values": list(values)}
        body["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    return msgspec.convert(body, StorageClass)


CLASSES = {
    each.metadata.name: each
    for each in (
        storage("late"),
        storage("zonal", "WaitForFirstConsumer", "csi", "a", "b"),
        storage("now", "Immediate"),
        storage("static", "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
    )
}


def volumes(*objects: PersistentVolumeClaim | PersistentVolume) -> Volumes:
    found = {each.metadata.name: each for each in objects}

    def claims(namespace: str, name: str) -> PersistentVolumeClaim | None:
        each = found.get(name)
        return each if isinstance(each, PersistentVolumeClaim) and namespace == "ns" else None

    def pvs(name: str) -> PersistentVolume | None:
        each = found.get(name)
        return each if isinstance(each, PersistentVolume) else None

    return Volumes(claims, pvs, CLASSES.get)


def using(*names: str) -> Pod:
    return pod("p", {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]})


def test_k8_a_bound_volume_keeps_its_pod_where_it_is() -> None:
    found = reach(using("data"), volumes(claim(volume="pv"), volume("pv", ZONE_A)))
    assert found == Reach(((IN_A,),))


def test_a_bound_volume_without_affinity_is_anywhere() -> None:
    assert reach(using("data"), volumes(claim(volume="pv"), volume("pv"))) == Reach()


def test_k8_an_unbound_claim_that_waits_goes_where_its_class_allows_and_is_marked_at_bind() -> None:
    found = reach(using("data"), volumes(claim(storage="zonal")))
    assert found.required == ((NodeTerm((Term("zone", "In", ("a", "b")),)),),)
    assert found.to_mark == ("data",)
    assert reach(using("data"), volumes(claim())) == Reach(to_mark=("data",))


def test_a_claim_that_is_being_provisioned_stays_with_its_node() -> None:
    marked = claim(annotations={"volume.kubernetes.io/selected-node": "n7"})
    found = reach(using("data"), volumes(marked))
    assert found == Reach(((NodeTerm(fields=(Term("metadata.name", "In", ("n7",)),)),),))


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([claim(storage="now")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(storage=None)], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(storage="")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(storage="none")], 'storageclass.storage.k8s.io "none" not found'),
        ([claim(volume="pv")], 'persistentvolume "pv" not found'),
        ([claim(volume="pv", phase="Pending"), volume("pv")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(volume="pv", phase="Lost")], 'persistentvolumeclaim "data" bound to non-existent persistentvolume'),
        ([claim(deletionTimestamp="2026-01-01T00:00:00Z")], 'persistentvolumeclaim "data" is being deleted'),
    ],
)
def test_k8_a_claim_that_is_not_there_yet_holds_the_pod_with_a_reason(claims: list[Any], text: str) -> None:
    assert reach(using("data"), volumes(*claims)).waits == text


def test_k8_a_claim_for_one_pod_is_that_of_the_pod_with_a_node_or_else_of_the_first_that_may_go() -> None:
    alone = msgspec.structs.replace(claim(volume="pv"), spec=msgspec.convert(ALONE, PersistentVolumeClaimSpec))
    spec = {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}

    def waits(*others: Pod) -> str:
        asked = pod("m", spec)
        known = replace(volumes(alone, volume()), users=lambda namespace, name: (asked, *others))
        return reach(asked, known).waits

    taken = 'persistentvolumeclaim "data" is used by another pod and has access mode ReadWriteOncePod'
    assert waits() == ""
    assert waits(pod("z", {**spec, "nodeName": "n"})) == taken
    assert waits(pod("z", {**spec, "nodeName": "n"}, {"phase": "Succeeded"})) == ""
    assert (waits(pod("a", spec)), waits(pod("z", spec))) == (taken, "")
    assert waits(pod("a", {**spec, "schedulingGates": [{"name": "g"}]})) == ""


def test_k8_volumes_without_a_provisioner_are_not_ignored() -> None:
    assert "has no provisioner" in reach(using("data"), volumes(claim(storage="static"))).waits


def test_ephemeral_volumes_have_a_claim_of_their_own() -> None:
    one = pod("p", {"volumes": [{"name": "scratch", "ephemeral": {}}]})
    owner = {"uid": "uid-p", "controller": True}
    assert "waiting for ephemeral volume controller" in reach(one, volumes()).waits
    assert "was not created for pod" in reach(one, volumes(claim("p-scratch"))).waits
    assert reach(one, volumes(claim("p-scratch", ownerReferences=[owner]))).to_mark == ("p-scratch",)


def test_k8_all_volumes_of_a_pod_and_its_own_affinity_hold_together() -> None:
    zone_b = {"key": "zone", "operator": "NotIn", "values": ["b"]}
    found = volumes(claim("x", "pv-x"), volume("pv-x", ZONE_A, zone_b), claim("y", "pv-y"), volume("pv-y", ZONE_A))
    context = Context(RESOURCES, volumes=found)
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    base = using("x", "y")
    one = msgspec.structs.replace(
        base, spec=msgspec.convert({**msgspec.to_builtins(base.spec), "affinity": affinity}, type(base.spec))
    )
    allowed = shape_in(one, Shapes(RESOURCES), context).filter

    def admitted(**labels: str) -> bool:
        return admits(allowed, Node("n", labels, (), (), ()))

    assert admitted(gpu="1", zone="a")
    assert not admitted(zone="a")
    assert not admitted(gpu="1", zone="c")


requirements = st.builds(
    Term,
    key=st.sampled_from("xy"),
    operator=st.just("In"),
    values=st.lists(st.sampled_from("12"), min_size=1).map(tuple),
)
terms = st.builds(NodeTerm, expressions=st.lists(requirements, max_size=2).map(tuple))
lists = st.lists(terms, max_size=3).map(tuple)


@given(own=st.none() | lists, others=st.lists(lists, max_size=3).map(tuple))
def test_k8_a_narrowed_filter_admits_what_all_its_parts_admit(own: Any, others: Any) -> None:
    combined = narrowed(NodeFilter(required=own), others)
    assert combined is not None
    for x, y in product("012", "012"):
        node = Node("n", {"x": x, "y": y}, (), (), ())
        parts = [NodeFilter(required=own), *(NodeFilter(required=other) for other in others)]
        assert admits(combined, node) == all(admits(part, node) for part in parts)


def test_too_many_combinations_are_said_and_not_tried() -> None:
    many = tuple(NodeTerm((Term("zone", "In", (str(i),)),)) for i in range(100))
    assert narrowed(NodeFilter(required=many), (many,)) is None


def test_k8_pods_with_volumes_in_different_places_are_of_different_shapes() -> None:
    zone_b = {"key": "zone", "operator": "In", "values": ["b"]}
    found = volumes(claim("x", "pv-x"), volume("pv-x", ZONE_A), claim("y", "pv-y"), volume("pv-y", zone_b))
    pods = [
        member(name, spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}) for name in "xy"
    ]
    (leaf,) = reading({"minMember": 2}, pods, Context(RESOURCES, volumes=found)).gang.root.groups
    assert len(leaf.pods) == 2


def test_k8_a_missing_claim_makes_the_set_unsupported() -> None:
    pods = [member("p", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]})]
    assert reading({}, pods).gang.root.pods[0].unsupported == 'persistentvolumeclaim "gone" not found'


def test_k8_resource_claims_hold_a_pod_until_they_are_allocated_and_then_say_where() -> None:
    one = member("p", spec={"resourceClaims": [{"name": "gpus", "resourceClaimName": "shared"}]})
    waiting = msgspec.convert({"metadata": {"name": "shared"}}, ResourceClaim)
    selector = {"nodeSelectorTerms": [{"matchExpressions": [ZONE_A]}]}
    allocated = msgspec.convert(
        {"metadata": {"name": "shared"}, "status": {"allocation": {"nodeSelector": selector}}}, ResourceClaim
    )

    def pods(found: ResourceClaim | None) -> Any:
        return reading({}, [one], Context(RESOURCES, claim=lambda _, __: found)).gang.root.pods[0]

    said = "resourceClaims[gpus] can not be honoured: ResourceClaim shared"
    assert pods(None).unsupported == f"{said} does not exist"
    assert pods(waiting).unsupported == f"{said} is not allocated"
    assert pods(allocated).unsupported == ""
    assert pods(allocated).filter.required == (IN_A,)


def test_k8_a_claim_from_a_template_is_known_by_the_status_of_its_pod() -> None:
    spec = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "t"}]}
    early = member("p", spec=spec)
    assert "is not created yet" in reading({}, [early]).gang.root.pods[0].unsupported
    none = member("p", spec=spec, status={"phase": "Pending", "resourceClaimStatuses": [{"name": "gpus"}]})
    assert reading({}, [none]).gang.root.pods[0].unsupported == ""
