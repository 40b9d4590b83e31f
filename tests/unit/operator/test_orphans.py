"""A set that was deleted and left its objects behind: made again, it takes them over as they are."""

from __future__ import annotations

from typing import Any

from spinney.drive.apply.write import ANY
from spinney.sim.world import World
from unit.operator.operator_world import clique, group, in_world, podcliqueset

KINDS = ("PodClique", "PodCliqueScalingGroup", "PodGang", "Service", "ServiceAccount", "Role", "RoleBinding")


async def owned(world: World) -> dict[str, tuple[str, str]]:
    """Uid and owner of what was made for the set, by kind and name."""
    found: dict[str, tuple[str, str]] = {}
    for kind in (*KINDS, "Pod"):
        for each in await world.list(kind):
            metadata: dict[str, Any] = each["metadata"]
            if metadata.get("labels", {}).get("app.kubernetes.io/part-of") == "llm":
                owners = metadata.get("ownerReferences") or [{}]
                found[f"{kind}/{metadata['name']}"] = metadata["uid"], owners[0].get("uid", "")
    return found


def test_g1_an_orphaned_set_is_adopted_and_its_pods_go_on() -> None:
    async def scenario(world: World) -> None:
        made = podcliqueset("llm", [clique("a", 2), clique("w", startsAfter=["a"])], [group("g", ["w"], 2)])
        made["spec"]["template"]["cliqueStartupType"] = "CliqueStartupTypeExplicit"
        await world.apply(made)
        await world.settle()
        before = await owned(world)
        assert {each.partition("/")[0] for each in before} == {*KINDS, "Pod"}
        await world.door.delete(world.ref(made), ANY, propagation="Orphan")
        await world.settle()
        assert await world.get("PodCliqueSet", "llm") is None
        assert {owner for name, (_, owner) in (await owned(world)).items() if name.startswith("PodGang/")} == {""}
        await world.apply(made)
        await world.settle()
        after = await owned(world)
        assert {name: uid for name, (uid, _) in after.items()} == {name: uid for name, (uid, _) in before.items()}
        assert [name for name, (_, owner) in after.items() if not owner] == []
        await world.delete("PodCliqueSet", "llm")
        await world.settle()
        assert await owned(world) == {}

    in_world(scenario)


def test_g1_what_somebody_else_made_under_such_a_name_is_not_adopted() -> None:
    async def scenario(world: World) -> None:
        theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm-0", "namespace": "default"}}
        await world.apply(theirs | {"spec": {"clusterIP": "None", "selector": {"app": "theirs"}}})
        await world.apply(podcliqueset("llm", [clique("a")]))
        await world.settle()
        found = await world.get("Service", "llm-0")
        assert found is not None
        assert "ownerReferences" not in found["metadata"]

    in_world(scenario)
