"""Everything beyond pods, sizes and levels, strewn into a random problem."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from placement_oracle.clusters import GPU, HOST, RACK, ZONE
from placement_oracle.reading import Document

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
TOLERATIONS = (
    {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "value": "cpu", "effect": "NoSchedule"},
    {"operator": "Exists", "effect": "NoExecute"},
    {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
)


def add_oddities(random: Random, problem: Document, *, preempt: bool) -> None:
    """Turns some knobs of nodes, pod sets, groups and gangs."""
    knobs = {name for name in ("nodes", "filters", "apart", "elastic", "optional", "running") if random.random() < 0.4}
    other = _second_topology(random, problem) if random.random() < 0.3 else None
    if "nodes" in knobs:
        _spoil_nodes(random, problem["nodes"])
    if random.random() < 0.5:
        _release(random, problem["nodes"])
    for gang in problem["gangs"]:
        _nest(random, gang)
        for group in _groups(gang):
            if other and random.random() < 0.3:
                _change_topology(random, group, other)
            if "optional" in knobs and random.random() < 0.4:
                children = len(group.get("groups") or []) + len(group.get("pods") or [])
                group["minGroups"] = random.randint(1, max(1, children))
        for pods in _pod_sets(gang):
            _change_pods(random, pods, knobs)
        if "running" in knobs or preempt:
            _run_some(random, problem, gang, 1.0 if preempt else 0.3)
    _order(random, problem["gangs"], preempt)
    problem["options"] = _options(random, preempt)
    if random.random() < 0.04:
        _mistake(random, random.choice(problem["gangs"]))


def _groups(group: Document) -> Iterator[Document]:
    yield group
    for child in group.get("groups") or []:
        yield from _groups(child)


def _pod_sets(gang: Document) -> Iterator[Document]:
    return (pods for group in _groups(gang) for pods in group.get("pods") or [])


def _second_topology(random: Random, problem: Document) -> Document:
    levels = random.choice((["net.example.com/leaf"], ["net.example.com/spine", "net.example.com/leaf"], [ZONE, HOST]))
    other = {"name": "other", "levels": levels}
    problem["topologies"].append(other)
    for node in problem["nodes"]:
        if random.random() < 0.9:
            node["labels"]["net.example.com/spine"] = random.choice("ab")
        if random.random() < 0.9:
            node["labels"]["net.example.com/leaf"] = random.choice("xyz")
    return other


def _change_topology(random: Random, group: Document, other: Document) -> None:
    """Levels of the second topology in place of those of the first; the children keep theirs."""
    for child in [*(group.get("groups") or []), *(group.get("pods") or [])]:
        child.setdefault("topology", group.get("topology") or "main")
    kind, dropped = random.choice((("required", "preferred"), ("preferred", "required"), ("preferred", "required")))
    group.update({"topology": other["name"], kind: random.choice(other["levels"])})
    group.pop(dropped, None)


def _spoil_nodes(random: Random, nodes: list[Document]) -> None:
    for node in nodes:
        if random.random() < 0.1:
            node["unschedulable"] = True
        if random.random() < 0.1:
            node["ready"] = False
        if random.random() < 0.25:
            effect = random.choice(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))
            node["taints"] = [{**TAINT, "effect": effect}]
        if random.random() < 0.2:
            node["hostPorts"] = random.sample((80, 443, 9000), random.randint(1, 2))
        if random.random() < 0.3:
            node["labels"]["generation"] = random.choice(("3", "9", "12", "new"))


def _release(random: Random, nodes: list[Document]) -> None:
    for node in nodes:
        used = int(node["used"].get(GPU, 0))
        if used and random.random() < 0.5:
            node["releasing"] = {GPU: str(random.randint(1, used))}


def _nest(random: Random, gang: Document) -> None:
    """Puts neighbouring groups under a new one, up to depth three."""
    groups = gang.get("groups") or []
    if len(groups) > 1 and random.random() < 0.4:
        cut = random.randint(1, len(groups))
        inner: Document = {"name": "Nest", "groups": groups[:cut], "pods": []}
        if cut > 1 and random.random() < 0.4:
            inner["groups"] = [{"name": "deep", "groups": groups[1:cut]}, groups[0]]
        if gang.get("pods") and random.random() < 0.3:
            inner["pods"] = [gang["pods"].pop()]
        gang["groups"] = [*groups[cut:], inner]


def _change_pods(random: Random, pods: Document, knobs: set[str]) -> None:
    if "filters" in knobs and random.random() < 0.4:
        pods["tolerations"] = [random.choice(TOLERATIONS)]
    if "filters" in knobs and random.random() < 0.15:
        pods["nodeSelector"] = {random.choice((RACK, ZONE)): random.choice(("r0", "r1", "z0"))}
    if "filters" in knobs and random.random() < 0.3:
        pods["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _terms(random)}}
    if "apart" in knobs and random.random() < 0.3:
        pods["antiAffinity"] = [random.choice((HOST, HOST, RACK))]
    if "apart" in knobs and random.random() < 0.3:
        pods["hostPorts"] = random.sample((80, 443, 9000), random.randint(1, 2))
    if "elastic" in knobs and random.random() < 0.5:
        count = pods.get("count", 1)
        pods.update(min=random.randint(1, count), count=count + random.randint(0, 3))


def _terms(random: Random) -> Document:
    terms = (
        {"matchExpressions": [{"key": RACK, "operator": "NotIn", "values": ["r0"]}]},
        {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r0", "r1", "d"]}]},
        {"matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["5"]}]},
        {"matchExpressions": [{"key": "generation", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}]},
    )
    return {"nodeSelectorTerms": random.sample(terms, random.choice((1, 1, 2)))}


def _run_some(random: Random, problem: Document, gang: Document, share: float) -> None:
    """Members that run already, near each other so that most of them keep their required domains."""
    running, start = [], random.randrange(len(problem["nodes"]))
    for path, pods in pod_set_paths(gang):
        if random.random() < share:
            for index in range(random.randint(1, pods.get("count", 1))):
                node = problem["nodes"][(start + index // 3) % len(problem["nodes"])]
                if _squeeze(node, pods):
                    running.append({"pods": path, "node": node["name"]})
    gang["running"] = running


def _squeeze(node: Document, pods: Document) -> bool:
    """A running member takes over room that was used by strangers."""
    wanted = int(pods["request"].get(GPU, 0))
    used, releasing = int(node["used"].get(GPU, 0)), int((node.get("releasing") or {}).get(GPU, 0))
    if used - releasing < wanted:
        return False
    node["used"][GPU] = str(used - wanted)
    return True


def pod_set_paths(group: Document, prefix: str = "") -> Iterator[tuple[str, Document]]:
    for child in group.get("groups") or []:
        yield from pod_set_paths(child, f"{prefix}{child['name']}/")
    for pods in group.get("pods") or []:
        yield prefix + pods["name"], pods


def _order(random: Random, gangs: list[Document], preempt: bool) -> None:
    for index, gang in enumerate(gangs):
        gang["priority"] = random.choice((0, 10, 100)) if preempt else 0
        gang["preemptible"] = random.random() < 0.8
        if index and random.random() < 0.3:
            gang["tiedTo"] = {"gang": random.choice(gangs)["name"], "level": gang.get("required") or RACK}
            if random.random() < 0.1:
                gang["tiedTo"]["gang"] = "ns/unknown"
            if gang["tiedTo"]["gang"] == gang["name"]:
                del gang["tiedTo"]
    if preempt:
        gangs.sort(key=lambda gang: -gang["priority"])


def _options(random: Random, preempt: bool) -> Document:
    options: Document = {"strategy": random.choice(("binpack", "spread")), "extras": random.choice(("place", "skip"))}
    return {**options, "preempt": True} if preempt else options


def _mistake(random: Random, gang: Document) -> None:
    pods = random.choice(list(_pod_sets(gang)))
    match random.randrange(6):
        case 0:
            gang["topology"] = "missing"
        case 1:
            gang["required"] = "example.com/typo"
        case 2:
            pods["min"] = pods.get("count", 1) + 1
        case 3:
            gang["minGroups"] = len(gang.get("groups") or []) + len(gang.get("pods") or []) + 1
        case 4:
            gang["pods"] = [*(gang.get("pods") or []), {"name": "twin", "request": {}}, {"name": "twin", "request": {}}]
        case 5:
            pods["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
