"""How the pods of one replica find each other: the leader's address, ranks, and the framework's own flags (3.7).

Flags are put into the command of a container: after the program, or inside a shell line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kube_apimachinery.quantity import read_number
from spinney.api import labels as known
from spinney.api.changes import Change, Json, Resource, Target
from spinney.api.kinds.podclique import PodClique
from spinney.api.kinds.podcliquescalinggroup import PodCliqueScalingGroup
from spinney.api.kinds.podgang import PodGang
from spinney.core.expansion.dynamo import generated_labels
from spinney.core.expansion.dynamo.containers import MAIN, PROBES, cache_path, containers_of, gpus_of
from spinney.core.expansion.dynamo.generated_labels import DynamoSettings
from spinney.core.expansion.dynamo.roles import Role, is_worker, node_count
from spinney.core.expansion.dynamo.status import Progress

# The interface between deployments and what runs them (D4): another back-end is another value of this shape.
#
# The API of deployments knows no back-end, and no back-end is asked about more than is said here.

ConditionText = tuple[str, str, str]
"""Status, reason and message of a condition."""


class BadDeployment(ValueError):
    """An invalid deployment that only the generator can detect."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What is there. `workload` is the live object as JSON; `refusal`: what the last attempt to write it came to."""

    settings: DynamoSettings
    now_s: float
    workload: Json | None = None
    cliques: Mapping[str, PodClique] = field(default_factory=dict)
    groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    gangs: Sequence[PodGang] = ()
    present: frozenset[Target] = frozenset()
    queue_exists: bool = True
    refusal: str = ""


class Framework(Protocol):
    """A way to run deployments; each says the same API in its own words."""

    @property
    def resource(self) -> Resource:
        """The kind of object that a deployment becomes."""
        ...

    def name_of(self, deployment: Json) -> str: ...

    def render(self, deployment: Json, observed: Observed, restarts: Mapping[str, str]) -> Json:
        """The whole object, topology in the framework's words. `restarts`: marks by component; another mark makes
        other pods. Raises BadDeployment.
        """
        ...

    def scale(self, deployment: Json, observed: Observed) -> list[Change]:
        """The changes that scale components without changing the workload object."""
        ...

    def progress(self, deployment: Json, observed: Observed) -> list[Progress]:
        """The progress of each component."""
        ...

    def restarted(self, observed: Observed) -> dict[str, str]:
        """The marks that components carry now."""
        ...

    def is_settled(self, observed: Observed) -> bool:
        """Whether the framework reports that all pods match the workload object."""
        ...

    def topology(self, observed: Observed) -> ConditionText:
        """Whether constraints are enforced."""
        ...


_PYTHON = re.compile(r"^(.*/)?python[0-9.]*$")
_SEGMENT_END = re.compile(r"([|&;]+)")
_INTERPRETER, _MODULE = re.compile(r"python[0-9.]*\s"), re.compile(r"-m\s")
_BACKENDS = {name: re.compile(rf"dynamo\.{name}\b") for name in ("vllm", "sglang", "trtllm")}
_LARGEST = 10**9
"""What a number of more digits than are read counts as: more than any machine has."""


def words_of(container: Json) -> str:
    """Command and arguments as one text, to be searched."""
    return " ".join(str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))


def backend_of(container: Json) -> str:
    """The framework that the command runs; empty if it cannot be determined. Linear in the command."""
    text = words_of(container)
    program = _INTERPRETER.search(text)
    module = _MODULE.search(text, program.end()) if program is not None else None
    if module is None:
        return ""
    return next((name for name, pattern in _BACKENDS.items() if pattern.search(text, module.end())), "")


def number_after(container: Json, *flags: str) -> int:
    """The value of a flag, `--flag 4` or `--flag=4`; 1 where it is not given."""
    text = words_of(container)
    for flag in flags:
        found = re.search(rf"(?:^|\s){re.escape(flag)}[=\s]+([0-9]+)", text)
        if found:
            number = read_number(found.group(1))
            return _LARGEST if number is None else number
    return 1


def has_flag(container: Json, flag: str) -> bool:
    return re.search(rf"(?:^|\s){re.escape(flag)}(?=$|[\s=])", words_of(container)) is not None


def inject(container: Json, framework: str, flags: Sequence[str], *, shell: bool) -> None:
    """Put flags into the command. `shell`: they hold an expression that only a shell can work out."""
    command, args = list(container.get("command") or ()), list(container.get("args") or ())
    if command and _PYTHON.match(str(command[0])):
        if not shell:
            container["args"] = [*args, *flags]
            return
        line = " ".join([*(shlex.quote(str(word)) for word in (*command, *args)), *flags])
        container["command"], container["args"] = ["sh", "-c"], [f"exec {line}"]
        return
    for index, text in enumerate(args):
        changed = _in_line(str(text), framework, " ".join(flags))
        if changed != text:
            container["args"] = [*args[:index], changed, *args[index + 1 :]]
            return


def _in_line(line: str, framework: str, flags: str) -> str:
    """Insert after the last word with the framework's name in each part of the line that runs it."""
    pieces = _SEGMENT_END.split(line)
    return "".join(piece if index % 2 else _in_segment(piece, framework, flags) for index, piece in enumerate(pieces))


def _in_segment(segment: str, framework: str, flags: str) -> str:
    if "python" not in segment or framework not in segment:
        return segment
    last = None
    for word in re.finditer(r"\S+", segment):
        if framework in word.group():
            last = word
    assert last is not None
    return f"{segment[: last.end()]} {flags}{segment[last.end() :]}"


RANK = "$((GROVE_PCLQ_POD_INDEX + 1))"
_MASTER_PORT, _RAY_PORT, _RPC_PORT, _SSH_PORT = 29500, 6379, 13445, 2222
_KEYS = (
    "mkdir -p $HOME/.ssh && cp /ssh-pk/private.key $HOME/.ssh/id_rsa && "
    "cp /ssh-pk/private.key.pub $HOME/.ssh/authorized_keys && chmod 600 $HOME/.ssh/id_rsa $HOME/.ssh/authorized_keys"
)
_AUTHORIZED = "AuthorizedKeysFile=$HOME/.ssh/authorized_keys"
_FOR_EVERY_RANK = ("HF_TOKEN", "HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
"""What images and secrets set beside the variables of the container."""


class Mismatch(ValueError):
    """The framework that is named is not the one that the command runs."""


MultinodeSetup = Callable[[Json, Json, Role, Json, DynamoSettings], None]


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
    if framework == "vllm" and _speaks_mp(deployment, component):
        _give(container, "VLLM_NIXL_SIDE_CHANNEL_HOST", valueFrom={"fieldRef": {"fieldPath": "status.podIP"}})
    if framework == "vllm" and (path := cache_path(component)):
        _give(container, "VLLM_CACHE_ROOT", value=path)
    if framework and node_count(component) > 1:
        _WIRES[framework](deployment, component, role, pod, settings)


def _give(container: Json, variable: str, **content: Any) -> None:
    """After the others; not where the user has one of this name."""
    if all(one.get("name") != variable for one in container["env"]):
        container["env"].append({"name": variable, **content})


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
        _ray(deployment, component, role, pod)
    elif tensor * pipeline > gpus:
        if _speaks_mp(deployment, component):
            _mp(deployment, component, role, pod)
        else:
            _ray(deployment, component, role, pod)
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
        _wait_for_leader(deployment, component, pod, "mp", _MASTER_PORT)


def _wait_for_leader(deployment: Json, component: Json, pod: Json, way: str, port: int) -> None:
    script = f"{deployment['metadata']['name']}-wait-leader-script"
    pod.setdefault("volumes", []).append({"name": "wait-leader-script", "configMap": {"name": script}})
    pod.setdefault("initContainers", []).append(
        {
            "name": f"wait-for-leader-{way}",
            "image": pod["containers"][0].get("image", ""),
            "command": ["python3", "/wait-leader/wait_for_leader.py"],
            "env": [
                {"name": "LEADER_HOST", "value": leader_host(component)},
                {"name": "LEADER_PORT", "value": str(port)},
            ],
            "volumeMounts": [{"name": "wait-leader-script", "mountPath": "/wait-leader", "readOnly": True}],
        }
    )


def _ray(deployment: Json, component: Json, role: Role, pod: Json) -> None:
    """A worker that comes before the head does not always find it later."""
    container = pod["containers"][0]
    if role.kind == "worker":
        _wait_for_leader(deployment, component, pod, "ray", _RAY_PORT)
        container["command"] = ["/bin/sh", "-c"]
        container["args"] = [f"ray start --address={leader_host(component)}:{_RAY_PORT} --block"]
        return
    inject(container, "vllm", ["--distributed-executor-backend", "ray"], shell=False)
    line, shell = _as_line(container), container.get("command") or []
    container["command"] = shell if shell[-1:] == ["-c"] else ["/bin/sh", "-c"]
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
        {"name": "mpi-ssh", "secret": {"secretName": settings.ssh_secret, "defaultMode": 0o644}}
    )
    container.setdefault("volumeMounts", []).append({"name": "mpi-ssh", "mountPath": "/ssh-pk", "readOnly": True})
    _give(container, "OMPI_MCA_orte_keep_fqdn_hostnames", value="1")
    run = _serve_mpi(container) if role.kind == "worker" else _run_mpi(component, container)
    container["command"], container["args"] = ["/bin/sh", "-c"], [f"{_KEYS} && {run}"]


def _serve_mpi(container: Json) -> str:
    """A worker waits for its leader to log in: any user may run the server, with a host key of its own."""
    _drop_probes(container)
    container["readinessProbe"] = {
        "tcpSocket": {"port": _SSH_PORT},
        "initialDelaySeconds": 20,
        "periodSeconds": 20,
        "timeoutSeconds": 5,
        "failureThreshold": 10,
    }
    options = " ".join(f"-o {one}" for one in ("StrictModes=no", "PermitRootLogin=yes", "PidFile=none", _AUTHORIZED))
    return (
        "rm -f $HOME/.ssh/host_key && ssh-keygen -q -t ed25519 -N '' -f $HOME/.ssh/host_key && "
        f"(mkdir -p /run/sshd || true) && exec /usr/sbin/sshd -D -p {_SSH_PORT} -h $HOME/.ssh/host_key {options}"
    )


def _run_mpi(component: Json, container: Json) -> str:
    """One rank per GPU; a login brings no environment along, so each variable is handed over by name."""
    gpus, nodes = max(gpus_of(container), 1), node_count(component)
    hosts = ",".join(f"{host}:{gpus}" for host in _all_hosts(component, nodes))
    login = f"-p {_SSH_PORT} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i $HOME/.ssh/id_rsa"
    variables = sorted({*_FOR_EVERY_RANK, *(one["name"] for one in container["env"])})
    line = shlex.join([str(word) for key in ("command", "args") for word in container.get(key) or ()])
    return (
        f'mpirun --allow-run-as-root --oversubscribe -n {nodes * gpus} -H {hosts} -mca plm_rsh_args "{login}" '
        f"{' '.join(f'-x {name}' for name in variables)} trtllm-llmapi-launch {line}"
    )


def _all_hosts(component: Json, nodes: int) -> list[str]:
    base = f"$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{component['name'].lower()}"
    workers = [f"{base}-wkr-{index}.$(GROVE_HEADLESS_SERVICE)" for index in range(nodes - 1)]
    return [leader_host(component), *workers]


def _as_line(container: Json) -> str:
    """The command as one line for a shell; words that no shell has read yet are none of its business."""
    command, args = ([str(word) for word in container.get(key) or ()] for key in ("command", "args"))
    return " ".join(args) if command[-1:] == ["-c"] else shlex.join([*command, *args])


def _speaks_mp(deployment: Json, component: Json) -> bool:
    """As the component says, else the deployment."""
    given = generated_labels.clique_annotations(deployment, component)
    asked = given.get(known.DYNAMO_VLLM_EXECUTOR, "")
    if asked:
        return asked.lower() == "mp"
    numbers = given.get(known.DYNAMO_ORIGIN_VERSION, "").lstrip("v").split("-")[0].split(".")
    return (read_number(numbers[0]) or 0) >= 1


def _drop_probes(container: Json) -> None:
    for probe in PROBES:
        container.pop(probe, None)


_WIRES: dict[str, MultinodeSetup] = {"sglang": _sglang, "vllm": _vllm, "trtllm": _trtllm}
