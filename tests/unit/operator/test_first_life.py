"""A set of two cliques, from the manifest to running pods and a status that says so."""

from __future__ import annotations

from typing import Any

from spinney.sim.world import World
from unit.operator.operator_world import clique, condition, in_world, names, podcliqueset, writes_at_rest

_GATE = b"podgang-pending-creation"
SET = podcliqueset("d", [clique("fe", 2, labels={"team": "a"}, annotations={"note": "b"}), clique("be", 3, 2)])


async def _settled(world: World) -> World:
    await world.apply(SET)
    await world.settle()
    return world


def test_g1_a_set_becomes_cliques_a_base_gang_a_service_and_running_pods() -> None:
    async def scenario(world: World) -> None:
        await _settled(world)
        assert names(await world.list("PodClique")) == ["d-0-be", "d-0-fe"]
        assert names(await world.list("PodGang")) == ["d-0"]
        assert "d-0" in names(await world.list("Service", "default"))
        pods = await world.list("Pod")
        assert len(pods) == 5
        assert {each["status"]["phase"] for each in pods} == {"Running"}
        assert not any(each["spec"].get("schedulingGates") for each in pods)

    in_world(scenario)


def test_g1_a_pod_carries_the_names_labels_and_environment_of_its_place() -> None:
    async def scenario(world: World) -> None:
        await _settled(world)
        labels = "grove.io/podclique=d-0-fe,grove.io/podclique-pod-index=1"
        (pod,) = await world.list("Pod", labels=labels)
        assert pod["metadata"]["generateName"] == "d-0-fe-"
        assert pod["metadata"]["name"].startswith("d-0-fe-")
        assert pod["metadata"]["annotations"]["note"] == "b"
        expected = {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "d",
            "grove.io/podgang": "d-0",
            "grove.io/podcliqueset-replica-index": "0",
            "team": "a",
        }
        assert expected.items() <= pod["metadata"]["labels"].items()
        assert "grove.io/base-podgang" not in pod["metadata"]["labels"]
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("d-0-fe-1", "d-0")
        environment = {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}
        values = {name: each.get("value") for name, each in environment.items()}
        assert values["GROVE_PCS_NAME"] == "d"
        assert values["GROVE_PCS_INDEX"] == "0"
        assert values["GROVE_PCLQ_NAME"] == "d-0-fe"
        assert values["GROVE_HEADLESS_SERVICE"] == "d-0.default.svc.cluster.local"
        source = environment["GROVE_PCLQ_POD_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert source == "metadata.labels['grove.io/podclique-pod-index']"

    in_world(scenario)


def test_g1_a_pod_is_gated_until_its_gang_lists_it() -> None:
    made: dict[str, bool] = {}
    freed: dict[str, bool] = {}

    async def scenario(world: World) -> None:
        gang = [b""]

        def note(collection: str, event: Any) -> None:
            if event.new is None:
                return
            gated = _GATE in event.new.body
            if collection == "scheduler.grove.io/podgangs":
                gang[0] = event.new.body
            elif collection == "/pods" and event.old is None:
                made[event.new.name] = gated
            elif collection == "/pods" and _GATE in event.old.body and not gated:
                freed[event.new.name] = event.new.name.encode() in gang[0]

        world.on_write(note)
        await _settled(world)

    in_world(scenario)
    assert list(made.values()) == [True] * 5
    assert freed.keys() == made.keys()
    assert all(freed.values())


def test_g1_the_status_of_set_clique_and_gang_tells_what_is() -> None:
    async def scenario(world: World) -> None:
        await _settled(world)
        whole = await world.get("PodCliqueSet", "d") or {}
        counts = {key: whole["status"][key] for key in ("replicas", "updatedReplicas", "availableReplicas")}
        assert counts == {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
        assert whole["status"]["observedGeneration"] == whole["metadata"]["generation"]
        assert [each["phase"] for each in whole["status"]["podGangStatuses"]] == ["Running"]
        backend = await world.get("PodClique", "d-0-be") or {}
        status = backend["status"]
        assert (status["replicas"], status["readyReplicas"], status["scheduledReplicas"]) == (3, 3, 3)
        assert (status["updatedReplicas"], status["scheduleGatedReplicas"]) == (3, 0)
        assert condition(backend, "PodCliqueScheduled") == ("True", "SufficientScheduledPods")
        assert condition(backend, "MinAvailableBreached") == ("False", "SufficientReadyPods")
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["status"]["phase"] == "Running"
        assert condition(gang, "Initialized") == ("True", "PodGangPodsCreated")
        assert condition(gang, "Scheduled")[0] == condition(gang, "Ready")[0] == "True"
        assert [group["minReplicas"] for group in gang["spec"]["podgroups"]] == [2, 2]

    in_world(scenario)


def test_s3_a_gang_without_nodes_is_pending_and_initialized() -> None:
    async def scenario(world: World) -> None:
        await _settled(world)
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["status"]["phase"] == "Pending"
        assert condition(gang, "Initialized")[0] == "True"
        assert condition(gang, "Scheduled") == ("False", "MinimumNotScheduled")
        backend = await world.get("PodClique", "d-0-be")
        assert condition(backend, "PodCliqueScheduled") == ("False", "InsufficientScheduledPods")
        assert condition(backend, "MinAvailableBreached") == ("True", "ScheduledReplicasBelowMinAvailable")

    in_world(scenario, binds=False)


def test_live1_a_settled_world_is_left_alone_also_by_a_new_operator() -> None:
    async def scenario(world: World) -> list[str]:
        await _settled(world)
        return await writes_at_rest(world)

    assert in_world(scenario) == []


def test_g1_a_lost_pod_comes_back_with_its_index() -> None:
    async def scenario(world: World) -> None:
        await _settled(world)
        (pod,) = await world.list("Pod", labels="grove.io/podclique=d-0-be,grove.io/podclique-pod-index=1")
        await world.delete("Pod", pod["metadata"]["name"])
        await world.settle()
        pods = await world.list("Pod", labels="grove.io/podclique=d-0-be")
        indices = sorted(each["metadata"]["labels"]["grove.io/podclique-pod-index"] for each in pods)
        assert indices == ["0", "1", "2"]
        assert pod["metadata"]["name"] not in names(pods)
        gang = await world.get("PodGang", "d-0") or {}
        listed = {ref["name"] for group in gang["spec"]["podgroups"] for ref in group["podReferences"]}
        assert set(names(pods)) <= listed
        assert pod["metadata"]["name"] not in listed

    in_world(scenario)


def test_g1_gates_of_others_stay_where_they_are() -> None:
    pod_spec = {"containers": [{"name": "main", "image": "serve"}], "schedulingGates": [{"name": "example.com/wait"}]}

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("fe", podSpec=pod_spec)]))
        await world.settle()
        (pod,) = await world.list("Pod")
        assert pod["spec"]["schedulingGates"] == [{"name": "example.com/wait"}]

    in_world(scenario)


def test_g1_our_environment_comes_first_and_wins_over_the_template() -> None:
    env = [{"name": "GROVE_PCS_NAME", "value": "mine"}, {"name": "URL", "value": "http://$(GROVE_HEADLESS_SERVICE)"}]
    pod_spec = {"containers": [{"name": "main", "image": "serve", "env": env}]}

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("fe", podSpec=pod_spec)]))
        await world.settle()
        (pod,) = await world.list("Pod")
        found = pod["spec"]["containers"][0]["env"]
        assert found[0] == {"name": "GROVE_PCS_NAME", "value": "d"}
        assert found[-1]["name"] == "URL"
        assert sum(each["name"] == "GROVE_PCS_NAME" for each in found) == 1

    in_world(scenario)


def test_g1_the_gang_mirrors_labels_of_its_set_and_forgets_them_with_it() -> None:
    async def scenario(world: World) -> None:
        labelled = podcliqueset("d", [clique("fe")], metadata={"labels": {"team": "a"}})
        await world.apply(labelled)
        await world.settle()
        gang = await world.get("PodGang", "d-0") or {}
        assert gang["metadata"]["labels"]["team"] == "a"
        await world.apply({**gang, "metadata": {**_bare(gang), "labels": {"theirs": "stays"}}, "status": None})
        await world.apply(podcliqueset("d", [clique("fe")]))
        await world.settle()
        gang = await world.get("PodGang", "d-0") or {}
        assert "team" not in gang["metadata"]["labels"]
        assert gang["metadata"]["labels"]["theirs"] == "stays"

    in_world(scenario)


def _bare(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: obj["metadata"][key] for key in ("name", "namespace")}


def test_g1_a_refused_pod_is_told_to_the_user_once() -> None:
    pod_spec = {"containers": [{"name": "NOT VALID", "image": "serve"}]}

    async def scenario(world: World) -> None:
        await world.apply(podcliqueset("d", [clique("fe", podSpec=pod_spec)]))
        await world.settle()
        found = [each for each in await world.list("Event") if each["reason"] == "PodCreateFailed"]
        assert len({each["message"] for each in found}) == len(found) >= 1
        assert found[0]["involvedObject"]["kind"] == "PodClique"
        assert "NOT VALID" in found[0]["message"]

    in_world(scenario)


def test_pods_of_another_namespace_that_claim_the_uid_of_a_clique_are_not_counted() -> None:
    """The garbage collector leaves them: it knows nothing of the kind that they name."""

    async def scenario(world: World) -> None:
        await _settled(world)
        pods = await world.list("Pod", "default")
        theirs: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}}]
        for pod in pods:
            (owner,) = pod["metadata"]["ownerReferences"]
            metadata = {
                "name": f"a-{pod['metadata']['name']}",
                "namespace": "theirs",
                "labels": pod["metadata"]["labels"],
                "ownerReferences": [owner | {"apiVersion": "nosuch/v1", "kind": "Nosuch"}],
            }
            spec = {"containers": [{"name": "main", "image": "serve"}]}
            theirs.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        await world.apply(theirs)
        await world.delete("Pod", pods[0]["metadata"]["name"])
        await world.settle()
        assert names(await world.list("Pod", "theirs")) == names(theirs[1:])
        assert len(await world.list("Pod", "default")) == len(pods)
        assert {each["status"]["replicas"] for each in await world.list("PodClique")} == {2, 3}

    in_world(scenario)
