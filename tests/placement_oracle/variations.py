"""Changes to a problem whose effect on the answer is known: none at all, or none for the worse."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from placement_oracle.clusters import GPU, HOST
from placement_oracle.quantities import base_units
from placement_oracle.reading import Document


def shuffled(random: Random, problem: Document) -> Document:
    """The nodes in another order."""
    varied = deepcopy(problem)
    random.shuffle(varied["nodes"])
    return varied


def with_unusable_nodes(random: Random, problem: Document) -> Document:
    """More nodes, in old and new domains, that no pod can use."""
    varied = deepcopy(problem)
    for index in range(random.randint(1, 4)):
        node = deepcopy(random.choice(problem["nodes"]))
        node.update(name=f"a-new-{index}", used={}, releasing={})
        for key in [key for key in node["labels"] if random.random() < 0.3]:
            node["labels"][key] = f"new-{index}"
        if HOST in node["labels"]:
            node["labels"][HOST] = node["name"]
        match random.randrange(3):
            case 0:
                node["unschedulable"] = True
            case 1:
                node["ready"] = False
            case 2:
                node["used"] = dict(node["allocatable"])
        varied["nodes"].insert(random.randrange(len(varied["nodes"]) + 1), node)
    return varied


def scaled(random: Random, problem: Document) -> Document:
    """All amounts of one resource times a factor, in another notation."""
    resource = random.choice([name for name in problem["resources"] if name != "pods"])
    factor = random.choice((2, 3, 7, 10))
    varied = deepcopy(problem)
    for node in varied["nodes"]:
        for part, up in (("allocatable", False), ("used", True), ("releasing", False)):
            _multiply(node.get(part), resource, factor, up)
    for pods in _pod_sets(varied):
        _multiply(pods.get("request"), resource, factor, True)
    return varied


def _multiply(amounts: Document | None, resource: str, factor: int, up: bool) -> None:
    if amounts and resource in amounts:
        units = base_units(resource, amounts[resource], up=up) * factor
        amounts[resource] = f"{units}m" if resource == "cpu" else str(units)


def renamed(random: Random, problem: Document) -> Document:
    """Every label value, node, gang and group under another name; levels keep their structure."""
    varied = deepcopy(problem)
    salt = f"{random.choice('AbZ')}{random.randrange(1000)}."
    nodes = {node["name"]: f"{salt}{node['name'][::-1]}" for node in problem["nodes"]}
    for node in varied["nodes"]:
        node["name"] = nodes[node["name"]]
        node["labels"] = {key: f"{salt}{value}" for key, value in node["labels"].items()}
    for gang in varied["gangs"]:
        gang["name"] += "-other"
        for group in _groups(gang):
            for child in (group.get("groups") or []) + (group.get("pods") or []):
                child["name"] = f"X{child['name'][::-1]}"
    return varied


def with_more_room(random: Random, problem: Document) -> Document:
    """One node less used, or one node more."""
    varied = deepcopy(problem)
    node = random.choice(varied["nodes"])
    if random.random() < 0.3:
        twin = deepcopy(node)
        twin["name"] = f"{node['name']}-twin"
        varied["nodes"].append(twin)
    elif random.random() < 0.5:
        node["used"] = {}
        node["releasing"] = {}
    else:
        node["allocatable"][GPU] = str(int(node["allocatable"].get(GPU, 0)) + random.randint(1, 4))
    return varied


def _groups(group: Document) -> list[Document]:
    return [group] + [found for child in group.get("groups") or [] for found in _groups(child)]


def _pod_sets(problem: Document) -> list[Document]:
    return [pods for gang in problem["gangs"] for group in _groups(gang) for pods in group.get("pods") or []]
