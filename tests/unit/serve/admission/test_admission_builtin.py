"""The rules that every API server has: namespaces, priority, tolerations, storage classes, limits."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kube_apimachinery.admission import AdmissionRequest, Lookup, Verdict
from kube_apimachinery.field_errors import invalid
from kube_embedded.admission.builtin_plugins import BuiltinRules
from kube_embedded.admission.chain import AdmissionChain
from kube_embedded.base.errors import ApiError

Object = dict[str, Any]


class World:
    """Objects by (group, plural), and a chain of the built-in rules over them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], list[Object]] = {}
        self.rules = BuiltinRules(lambda group, plural: self.objects.get((group, plural), []))
        self.chain = AdmissionChain([self.rules], None, self.lookup)  # type: ignore[arg-type]
        self.put("", "namespaces", {"metadata": {"name": "shop"}, "status": {"phase": "Active"}})

    def put(self, group: str, plural: str, obj: Object) -> None:
        self.objects.setdefault((group, plural), []).append(obj)
        self.rules.changed(group, plural)

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        found = self.objects.get((group, plural), [])
        return next((one for one in found if one["metadata"]["name"] == name), None)

    async def admit(self, request: AdmissionRequest) -> Object:
        changed = await self.chain.mutate(request, print)
        after = changed or request.object or {}
        await self.chain.validate(replace(request, object=after), print)
        return after

    async def refusal(self, request: AdmissionRequest) -> ApiError:
        with pytest.raises(ApiError) as caught:
            await self.admit(request)
        return caught.value


@pytest.fixture
def world() -> World:
    return World()


def asking(plural: str, kind: str, obj: Object | None, **changes: Any) -> AdmissionRequest:
    name = (obj or {}).get("metadata", {}).get("name", "")
    fields: dict[str, Any] = {
        "uid": "",
        "operation": "CREATE",
        "group": "",
        "version": "v1",
        "kind": kind,
        "resource": plural,
        "subresource": "",
        "namespace": "shop",
        "name": name,
        "user": "alice",
        "groups": (),
        "object": obj,
        "old_object": None,
        **changes,
    }
    return AdmissionRequest(**fields)


def pod(**spec: Any) -> AdmissionRequest:
    containers = spec.pop("containers", [{"name": "main"}])
    return asking("pods", "Pod", {"metadata": {"name": "web"}, "spec": {"containers": containers, **spec}})


def configmap(namespace: str, **changes: Any) -> AdmissionRequest:
    return asking("configmaps", "ConfigMap", {"metadata": {"name": "prices"}}, namespace=namespace, **changes)


async def test_nothing_is_created_in_a_namespace_that_is_not_there(world: World) -> None:
    error = await world.refusal(configmap("gone"))
    assert (error.code, error.reason, error.message) == (404, "NotFound", 'namespaces "gone" not found')
    assert error.details == {"name": "gone", "kind": "namespaces"}


async def test_nothing_is_created_in_a_namespace_that_is_ending(world: World) -> None:
    world.put("", "namespaces", {"metadata": {"name": "ending"}, "status": {"phase": "Terminating"}})
    error = await world.refusal(configmap("ending"))
    assert error.code == 403
    assert error.message == (
        'configmaps "prices" is forbidden: unable to create new content in namespace ending '
        "because it is being terminated"
    )
    assert error.details is not None and error.details["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace ending is being terminated",
            "field": "metadata.namespace",
        }
    ]


async def test_what_is_in_an_ending_namespace_may_still_be_updated(world: World) -> None:
    world.put("", "namespaces", {"metadata": {"name": "ending"}, "status": {"phase": "Terminating"}})
    await world.admit(configmap("ending", operation="UPDATE"))


async def test_a_namespace_that_begins_to_end_is_noticed(world: World) -> None:
    await world.admit(configmap("shop"))
    world.objects[("", "namespaces")][0]["status"]["phase"] = "Terminating"
    world.rules.changed("", "namespaces")
    assert (await world.refusal(configmap("shop"))).code == 403


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_are_never_deleted(world: World, name: str) -> None:
    request = asking("namespaces", "Namespace", None, operation="DELETE", namespace="", name=name)
    error = await world.refusal(request)
    assert error.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_other_namespaces_are(world: World) -> None:
    await world.admit(asking("namespaces", "Namespace", None, operation="DELETE", namespace="", name="shop"))


async def test_access_is_reviewed_for_namespaces_that_are_not_there(world: World) -> None:
    group = "authorization.k8s.io"
    await world.admit(
        asking("localsubjectaccessreviews", "LocalSubjectAccessReview", {}, group=group, namespace="gone")
    )


def priority_class(name: str, value: int, **fields: Any) -> Object:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority", **fields}


async def test_a_pod_without_a_class_has_priority_zero(world: World) -> None:
    spec = (await world.admit(pod()))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert "priorityClassName" not in spec


async def test_a_class_becomes_a_number(world: World) -> None:
    world.put("scheduling.k8s.io", "priorityclasses", priority_class("high", 1000, preemptionPolicy="Never"))
    spec = (await world.admit(pod(priorityClassName="high")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


async def test_the_lowest_default_class_is_everybodys(world: World) -> None:
    for name, value in (("b", 20), ("a", 10)):
        world.put("scheduling.k8s.io", "priorityclasses", priority_class(name, value, globalDefault=True))
    spec = (await world.admit(pod()))["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (10, "a")


PRIORITIES: dict[str, tuple[Object, str]] = {
    "an unknown class": ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
    "a number of its own": (
        {"priority": 5},
        "the integer value of priority (5) must not be provided in pod spec; "
        "priority admission controller computed 0 from the given PriorityClass name",
    ),
    "a policy of its own": (
        {"preemptionPolicy": "Never"},
        "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
        "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
    ),
}


@pytest.mark.parametrize(("spec", "why"), PRIORITIES.values(), ids=PRIORITIES)
async def test_a_priority_that_is_not_the_classs_is_refused(world: World, spec: Object, why: str) -> None:
    assert (await world.refusal(pod(**spec))).message == f'pods "web" is forbidden: {why}'


async def test_a_refusal_shows_the_prefix_of_a_name_to_be_generated(world: World) -> None:
    request = asking("pods", "Pod", {"metadata": {"generateName": "web-"}, "spec": {"priority": 5}})
    assert (await world.refusal(request)).message.startswith('pods "web-" is forbidden: ')


async def test_an_update_keeps_the_priority(world: World) -> None:
    old = {"metadata": {"name": "web"}, "spec": {"priority": 7, "preemptionPolicy": "Never", "tolerations": []}}
    new = {"metadata": {"name": "web"}, "spec": {"tolerations": [{"operator": "Exists"}]}}
    spec = (await world.admit(asking("pods", "Pod", new, operation="UPDATE", old_object=old)))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


async def test_there_is_one_default_class(world: World) -> None:
    def default(name: str, operation: str) -> AdmissionRequest:
        obj = priority_class(name, 1, globalDefault=True)
        group = "scheduling.k8s.io"
        return asking("priorityclasses", "PriorityClass", obj, group=group, namespace="", operation=operation)

    world.put("scheduling.k8s.io", "priorityclasses", priority_class("first", 1, globalDefault=True))
    await world.admit(default("first", "UPDATE"))
    for operation in ("CREATE", "UPDATE"):
        error = await world.refusal(default("second", operation))
        assert error.message == (
            'priorityclasses.scheduling.k8s.io "second" is forbidden: '
            "PriorityClass first is already marked as default. Only one default can exist"
        )


NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATIONS: dict[str, tuple[list[Object], list[str]]] = {
    "none": ([], [NOT_READY, UNREACHABLE]),
    "everything": ([{"operator": "Exists"}], []),
    "everything of another effect": ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
    "one of them": ([{"key": NOT_READY, "operator": "Exists"}], [UNREACHABLE]),
    "one with a time of its own": (
        [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}],
        [NOT_READY],
    ),
}


@pytest.mark.parametrize(("own", "added"), TOLERATIONS.values(), ids=TOLERATIONS)
async def test_a_pod_stays_five_minutes_on_a_broken_node(world: World, own: list[Object], added: list[str]) -> None:
    after = (await world.admit(pod(tolerations=own)))["spec"]["tolerations"]
    assert after == own + [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for taint in added
    ]


async def test_subresources_of_pods_are_left_alone(world: World) -> None:
    binding = {"metadata": {"name": "web"}, "target": {"name": "node"}}
    assert await world.chain.mutate(asking("pods", "Binding", binding, subresource="binding"), print) is None


def claim(**spec: Any) -> AdmissionRequest:
    return asking("persistentvolumeclaims", "PersistentVolumeClaim", {"metadata": {"name": "disk"}, "spec": spec})


def storage_class(name: str, created: str) -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}


async def test_a_claim_gets_the_newest_default_class(world: World) -> None:
    for name, created in (("b", "2026-01-02"), ("c", "2026-01-01"), ("a", "2026-01-02")):
        world.put("storage.k8s.io", "storageclasses", storage_class(name, created))
    assert (await world.admit(claim()))["spec"]["storageClassName"] == "a"
    assert (await world.admit(claim(storageClassName="")))["spec"]["storageClassName"] == ""


def limit_range(*limits: Object) -> Object:
    return {"metadata": {"name": "limits", "namespace": "shop"}, "spec": {"limits": list(limits)}}


async def test_a_container_gets_the_defaults_of_its_namespace(world: World) -> None:
    limits = {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}
    world.put("", "limitranges", limit_range(limits))
    after = await world.admit(pod(containers=[{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "1"}}}]))
    first, second = after["spec"]["containers"]
    assert first["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}}
    assert second["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}
    assert after["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container a; cpu limit for container a; cpu request for container b"
    )


def resources(request: str, limit: str) -> Object:
    return {"name": "main", "resources": {"requests": {"cpu": request}, "limits": {"cpu": limit}}}


LIMITS: dict[str, tuple[Object, list[Object], str]] = {
    "too much": (
        {"type": "Container", "max": {"cpu": "1"}},
        [resources("1", "2")],
        "maximum cpu usage per Container is 1, but limit is 2",
    ),
    "no limit": (
        {"type": "Container", "max": {"cpu": "1"}},
        [{"name": "main"}],
        "maximum cpu usage per Container is 1.  No limit is specified",
    ),
    "too little": (
        {"type": "Container", "min": {"cpu": "50m"}},
        [resources("10m", "1")],
        "minimum cpu usage per Container is 50m, but request is 10m",
    ),
    "too stretched": (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "5"}},
        [resources("60m", "500m")],
        "cpu max limit to request ratio per Container is 5, but provided ratio is 8.333333",
    ),
    "too much together": (
        {"type": "Pod", "max": {"cpu": "1500m"}},
        [resources("1", "1"), resources("1", "1")],
        "maximum cpu usage per Pod is 1500m, but limit is 2",
    ),
}


@pytest.mark.parametrize(("limit", "containers", "why"), LIMITS.values(), ids=LIMITS)
async def test_a_pod_outside_the_limits_is_refused(
    world: World, limit: Object, containers: list[Object], why: str
) -> None:
    world.put("", "limitranges", limit_range(limit))
    assert (await world.refusal(pod(containers=containers))).message == f'pods "web" is forbidden: {why}'


async def test_a_claim_outside_the_limits_is_refused(world: World) -> None:
    limit = {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}
    world.put("", "limitranges", limit_range(limit))
    error = await world.refusal(claim(resources={"requests": {"storage": "3Gi"}}))
    assert error.message.endswith("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")


class Answer:
    """A plug-in that always gives this verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def handles(self, request: AdmissionRequest) -> bool:
        return True

    def mutate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return Verdict()

    def validate(self, request: AdmissionRequest, lookup: Lookup) -> Verdict:
        return self._verdict


VERDICTS: dict[str, tuple[Verdict, int, str, str]] = {
    "field errors": (
        Verdict(False, errors=(invalid("spec.replicas", -1, "must not be negative"),)),
        422,
        "Invalid",
        'Pod "web" is invalid: spec.replicas: Invalid value: -1: must not be negative',
    ),
    "a message": (Verdict(False, message="no"), 403, "Forbidden", 'pods "web" is forbidden: no'),
    "a code": (Verdict(False, message="later", code=429), 429, "TooManyRequests", "later"),
}


@pytest.mark.parametrize(("verdict", "code", "reason", "message"), VERDICTS.values(), ids=VERDICTS)
async def test_a_verdict_becomes_a_status(verdict: Verdict, code: int, reason: str, message: str) -> None:
    chain = AdmissionChain([Answer(verdict)], None, lambda *key: None)  # type: ignore[arg-type]
    with pytest.raises(ApiError) as caught:
        await chain.validate(pod(), print)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, message)


async def test_an_allowed_verdict_may_warn() -> None:
    warnings: list[str] = []
    chain = AdmissionChain([Answer(Verdict(warnings=("old field",)))], None, lambda *key: None)  # type: ignore[arg-type]
    await chain.validate(pod(), warnings.append)
    assert warnings == ["old field"]
