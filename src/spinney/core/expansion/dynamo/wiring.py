"""How the pods of one replica find each other: the leader's address, ranks, and the framework's own flags (3.7)."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from spinney.api import labels as known
from spinney.api.changes import Json
from spinney.core.expansion.dynamo import marks
from spinney.core.expansion.dynamo.commands import backend_of, has_flag, inject, number_after
from spinney.core.expansion.dynamo.containers import MAIN, PROBES, containers_of, gpus_of
from spinney.core.expansion.dynamo.roles import Role, is_worker, node_count
from spinney.core.expansion.dynamo.settings import DynamoSettings

RANK = "$((GROVE_PCLQ_POD_INDEX + 1))"
_MASTER_PORT, _RAY_PORT, _RPC_PORT, _SSH_PORT = 29500, 6379, 13445, 2222


class Mismatch(ValueError):
    """The framework that is named is not the one that the command runs."""


Wire = Callable[[Json, Json, Role, Json, DynamoSettings], None]


def framework_of(deployment: Json, component: Json, container: Json) -> str:
    """Found in the command, else as the deployment says; empty for what is no worker."""
    if not is_worker(component):
        return ""
    named, found = deployment["spec"].get("backendFramework", ""), backend_of(container)
    if named and found and named != found:
        name = component["name"]
        raise Mismatch(f"component {name}: backendFramework is {named}, but its command runs {found}")
    return str(found or named)


def wire(deployment: Json, component: Json, role: Role, pod: Json, settings: DynamoSettings) -> None:
    """Change the pod of a role so that it works with the others of its replica."""
    container = pod["containers"][0]
    framework = framework_of(deployment, component, container)
    if framework == "vllm" and _speaks_mp(deployment):
        container["env"].append(
            {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        )
    if framework and node_count(component) > 1:
        _WIRES[framework](deployment, component, role, pod, settings)


def leader_host(component: Json) -> str:
    clique = f"{component['name'].lower()}-ldr"
    return f"$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{clique}-0.$(GROVE_HEADLESS_SERVICE)"


def starts_after(deployment: Json, component: Json, role: Role) -> list[str]:
    """Only MPI's leader needs its workers first."""
    own = next((one for one in containers_of(component) if one.get("name") == MAIN), {})
    if role.kind == "leader" and framework_of(deployment, component, own) == "trtllm":
        return [f"{component['name'].lower()}-wkr"]
    return []


def _sglang(deployment: Json, component: Json, role: Role, pod: Json, settings: DynamoSettings) -> None:
    container = pod["containers"][0]
    leads = role.kind == "leader"
    flags = ["--dist-init-addr", f"{leader_host(component)}:{_MASTER_PORT}", "--nnodes", str(node_count(component))]
    inject(container, "sglang", [*flags, "--node-rank", "0" if leads else RANK], shell=not leads)
    if not leads:
        _drop_probes(container)


def _vllm(deployment: Json, component: Json, role: Role, pod: Json, settings: DynamoSettings) -> None:
    container = pod["containers"][0]
    gpus = max(gpus_of(container), 1)
    tensor = number_after(container, "--tensor-parallel-size", "-tp")
    pipeline = number_after(container, "--pipeline-parallel-size", "-pp")
    data = number_after(container, "--data-parallel-size", "-dp")
    if has_flag(container, "--enable-elastic-ep"):
        _ray(component, role, container)
    elif tensor * pipeline > gpus:
        if _speaks_mp(deployment):
            _mp(deployment, component, role, pod)
        else:
            _ray(component, role, container)
    elif data * tensor * pipeline > gpus:
        _hybrid(component, role, container, data, max(gpus // (tensor * pipeline), 1))
    if role.kind == "worker":
        _drop_probes(container)


def _mp(deployment: Json, component: Json, role: Role, pod: Json) -> None:
    container, leads = pod["containers"][0], role.kind == "leader"
    flags = [
        *("--distributed-executor-backend", "mp", "--nnodes", str(node_count(component))),
        *("--master-addr", leader_host(component), "--master-port", str(_MASTER_PORT)),
        *("--node-rank", "0" if leads else RANK),
    ]
    inject(container, "vllm", flags if leads else [*flags, "--headless"], shell=not leads)
    if not leads:
        _wait_for_leader(deployment, component, pod)


def _wait_for_leader(deployment: Json, component: Json, pod: Json) -> None:
    script = f"{deployment['metadata']['name']}-wait-leader-script"
    pod.setdefault("volumes", []).append({"name": "wait-leader-script", "configMap": {"name": script}})
    pod.setdefault("initContainers", []).append(
        {
            "name": "wait-for-leader-mp",
            "image": pod["containers"][0].get("image", ""),
            "command": ["python3", "/wait-leader/wait_for_leader.py"],
            "env": [
                {"name": "LEADER_HOST", "value": leader_host(component)},
                {"name": "LEADER_PORT", "value": str(_MASTER_PORT)},
            ],
            "volumeMounts": [{"name": "wait-leader-script", "mountPath": "/wait-leader", "readOnly": True}],
        }
    )


def _ray(component: Json, role: Role, container: Json) -> None:
    if role.kind == "worker":
        container["command"] = ["/bin/sh", "-c"]
        container["args"] = [f"ray start --address={leader_host(component)}:{_RAY_PORT} --block"]
        return
    inject(container, "vllm", ["--distributed-executor-backend", "ray"], shell=False)
    line = _as_line(container)
    container["command"] = ["/bin/sh", "-c"]
    container["args"] = [f"ray start --head --port={_RAY_PORT} && {line}"]


def _hybrid(component: Json, role: Role, container: Json, size: int, local: int) -> None:
    leads = role.kind == "leader"
    start = "0" if leads else f"$(( {local} * (GROVE_PCLQ_POD_INDEX + 1) ))"
    flags = [
        *("--data-parallel-hybrid-lb", "--data-parallel-size", str(size), "--data-parallel-size-local", str(local)),
        *("--data-parallel-start-rank", start, "--data-parallel-address", leader_host(component)),
        *("--data-parallel-rpc-port", str(_RPC_PORT)),
    ]
    inject(container, "vllm", flags, shell=not leads)


def _trtllm(deployment: Json, component: Json, role: Role, pod: Json, settings: DynamoSettings) -> None:
    container = pod["containers"][0]
    pod.setdefault("volumes", []).append(
        {"name": "mpi-ssh", "secret": {"secretName": settings.ssh_secret, "defaultMode": 0o600}}
    )
    container.setdefault("volumeMounts", []).append({"name": "mpi-ssh", "mountPath": "/ssh-pk", "readOnly": True})
    keys = "mkdir -p ~/.ssh && cp /ssh-pk/* ~/.ssh/ && chmod 600 ~/.ssh/*"
    if role.kind == "worker":
        _drop_probes(container)
        container["command"] = ["/bin/sh", "-c"]
        container["args"] = [f"{keys} && mkdir -p /run/sshd && exec /usr/sbin/sshd -D -p {_SSH_PORT}"]
        container["readinessProbe"] = {
            "tcpSocket": {"port": _SSH_PORT},
            "initialDelaySeconds": 20,
            "periodSeconds": 20,
            "timeoutSeconds": 5,
            "failureThreshold": 10,
        }
        return
    gpus = max(gpus_of(container), 1)
    nodes = node_count(component)
    hosts = ",".join(f"{host}:{gpus}" for host in _all_hosts(component, nodes))
    run = f"mpirun --allow-run-as-root -n {nodes * gpus} -H {hosts} -mca plm_rsh_args '-p {_SSH_PORT}'"
    line = _as_line(container).replace("'", "'\\''")
    container["command"] = ["/bin/sh", "-c"]
    container["args"] = [f"{keys} && {run} sh -c '{line}'"]


def _all_hosts(component: Json, nodes: int) -> list[str]:
    base = f"$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{component['name'].lower()}"
    workers = [f"{base}-wkr-{index}.$(GROVE_HEADLESS_SERVICE)" for index in range(nodes - 1)]
    return [leader_host(component), *workers]


def _as_line(container: Json) -> str:
    """The command as one line for a shell; words that no shell has read yet are none of its business."""
    command, args = ([str(word) for word in container.get(key) or ()] for key in ("command", "args"))
    return " ".join(args) if command[-1:] == ["-c"] else shlex.join([*command, *args])


def _speaks_mp(deployment: Json) -> bool:
    given = marks.annotations_of(deployment)
    asked = given.get(known.DYNAMO_VLLM_EXECUTOR, "")
    if asked:
        return asked == "mp"
    numbers = given.get(known.DYNAMO_ORIGIN_VERSION, "").lstrip("v").split("-")[0].split(".")
    return numbers[0].isdigit() and int(numbers[0]) >= 1


def _drop_probes(container: Json) -> None:
    for probe in PROBES:
        container.pop(probe, None)


_WIRES: dict[str, Wire] = {"sglang": _sglang, "vllm": _vllm, "trtllm": _trtllm}
