"""`spinney up` as people use it: start, kubectl, stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from cluster_kit.server import eventually
from spinney.sim.controllers import third_party
from stack_kit.preloaded import Done, Preloaded
from stack_kit.spinney import SPINNEY, Spinney, spinney

Up = Callable[..., Spinney]
Start = Callable[..., Done]

EXAMPLES = Path(__file__).parents[2] / "examples"
STOPPED_WITHIN_S = 30.0

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME}
data: {key: value}
"""
WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {size: 1}
"""
OUR_KINDS = {
    "clustertopologies.grove.io",
    "clustertopologybindings.grove.io",
    "configs.kai.scheduler",
    "dynamographdeployments.nvidia.com",
    "podcliques.grove.io",
    "podcliquescalinggroups.grove.io",
    "podcliquesets.grove.io",
    "podgangs.scheduler.grove.io",
    "podgroups.scheduling.run.ai",
    "queues.scheduling.run.ai",
    "schedulingshards.kai.scheduler",
    "topologies.kai.scheduler",
}


def names(listed: dict) -> set[str]:
    return {one["metadata"]["name"] for one in listed["items"]}


def is_ready(node: dict) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def test_it_says_ready_and_its_kubeconfig_works(up: Up) -> None:
    running = up().ready()
    first = running.stdout.splitlines()[0]
    assert first.startswith("ready  http://127.0.0.1:")
    assert running.config["clusters"][0]["cluster"]["server"] == running.url
    assert running.kubeconfig.stat().st_mode & 0o077 == 0
    assert str(running.kubeconfig) in running.stdout
    nodes = running.get("nodes")["items"]
    assert len(nodes) == 16
    assert all(is_ready(node) for node in nodes)
    others = {each["metadata"]["name"] for each in third_party.definitions()}
    assert names(running.get("crds")) == OUR_KINDS | others


def test_without_the_kinds_of_others_only_ours_are_served(up: Up) -> None:
    running = up("--no-third-party").ready()
    assert names(running.get("crds")) == OUR_KINDS


def test_two_stacks_pick_ports_of_their_own(up: Up) -> None:
    first, second = up("--port", "0").ready(), up("--port", "0").ready()
    assert first.url != second.url
    first.kubectl("create", "configmap", "only-here")
    assert "only-here" not in second.kubectl("get", "configmaps")


@pytest.mark.parametrize("file", sorted(one.name for one in (EXAMPLES / "nodes").glob("*.yaml")))
def test_every_example_of_nodes_starts(up: Up, file: str) -> None:
    running = up("--nodes", str(EXAMPLES / "nodes" / file)).ready()
    nodes = running.get("nodes")["items"]
    assert f" {len(nodes)} nodes" in running.stdout
    eventually(lambda: all(is_ready(node) for node in running.get("nodes")["items"]), "all nodes are ready")


def test_several_manifests_are_applied_before_it_is_ready(up: Up, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.yaml").write_text(CONFIG.replace("NAME", "from-folder"))
    (folder / "notes.txt").write_text("not a manifest")
    (tmp_path / "widgets.yaml").write_text(WIDGETS)
    running = up(
        "-f", str(folder), "-f", str(tmp_path / "widgets.yaml"), "--filename", str(EXAMPLES / "job.yaml")
    ).ready()
    assert "4 objects applied" in running.stdout
    assert running.get("configmap", "from-folder")["data"] == {"key": "value"}
    assert running.get("widgets", "w")["spec"] == {"size": 1}
    eventually(lambda: running.get("job", "train")["status"].get("ready") == 4, "the pods of the job run")


def test_all_examples_are_accepted(up: Up) -> None:
    manifests = sorted(str(one) for one in EXAMPLES.glob("*.yaml"))
    running = up(*(part for one in manifests for part in ("-f", one))).ready()
    assert running.stderr == ""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly_also_with_open_watches(up: Up, how: signal.Signals) -> None:
    running = up().ready()
    watching = subprocess.Popen(running.kubectl_command("get", "nodes", "-w"), stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    for _ in range(17):
        watching.stdout.readline()
    status, seconds = running.stop(how)
    assert status == 0
    assert seconds < STOPPED_WITHIN_S
    assert running.stderr == ""
    watching.terminate()
    watching.communicate(timeout=90)


def test_a_signal_during_the_start_stops_it_too(up: Up) -> None:
    starting = up("--data-dir", "state")
    eventually(lambda: (starting.directory / "state" / "lock").exists(), "it has begun")
    status, seconds = starting.stop(signal.SIGINT)
    assert (status, starting.stderr) == (0, "")
    assert seconds < STOPPED_WITHIN_S


def test_a_client_that_reads_nothing_does_not_delay_the_stop(up: Up) -> None:
    running = up().ready()
    host, port = running.url.removeprefix("http://").split(":")
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((host, int(port)))
        deaf.sendall(b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for number in range(8):
            data = {"filling": "x" * 500_000}
            running.http(
                "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"c{number}"}, "data": data}
            )
        status, seconds = running.stop()
    assert (status, running.stderr) == (0, "")
    assert seconds < STOPPED_WITHIN_S


def test_it_runs_without_uvloop(tmp_path: Path) -> None:
    """There is none on some platforms."""
    without = "import sys; sys.modules['uvloop'] = None; from spinney.cli.main import main; main()"
    with spinney(tmp_path, program=[sys.executable, "-c", without]) as running:
        assert running.ready().http("GET", "/readyz") == (200, b"ok")
        status, seconds = running.stop()
    assert (status, running.stderr) == (0, "")
    assert seconds < STOPPED_WITHIN_S


def test_nodes_and_pods_of_a_user_are_simulated(up: Up) -> None:
    running = up("--nodes", str(EXAMPLES / "nodes" / "laptop.yaml")).ready()
    running.kubectl("run", "one", "--image=example.com/one:1")
    running.kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=150s")
    assert running.get("pod", "one")["spec"]["nodeName"] in names(running.get("nodes"))


class TestRefusals:
    """One sentence on standard error, an exit status that says whose fault it is, and nothing else."""

    @pytest.fixture
    def up(self, commands: Preloaded) -> Start:
        return partial(commands.run, "up", "--kubeconfig", "kubeconfig")

    def check(self, done: Done, status: int, *fragments: str) -> None:
        assert done.status == status, done
        assert not done.stdout
        said = done.stderr
        assert said.startswith("spinney up: ")
        assert said.count("\n") == 1, said
        for fragment in fragments:
            assert fragment in said

    def test_a_port_that_is_taken(self, up: Start) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.check(
                up("--port", port),
                3,
                f"cannot listen on 127.0.0.1:{port}: Address already in use",
            )

    def test_an_address_that_is_not_ours(self, up: Start) -> None:
        self.check(up("--host", "203.0.113.7"), 3, "cannot listen on 203.0.113.7")

    def test_a_name_that_does_not_resolve(self, up: Start) -> None:
        self.check(
            up("--host", "no-such-host.invalid"),
            3,
            "cannot listen on no-such-host.invalid",
        )

    @pytest.mark.parametrize(
        ("content", "fragment"),
        [
            ("levels: 7\n", "levels"),
            ("{", "not YAML"),
            ("", "found no nodes"),
            ("kind: Pod\n", "kind"),
        ],
        ids=["wrong-type", "not-yaml", "empty", "wrong-kind"],
    )
    def test_a_bad_nodes_file(self, up: Start, tmp_path: Path, content: str, fragment: str) -> None:
        file = tmp_path / "nodes.yaml"
        file.write_text(content)
        self.check(up("--nodes", str(file)), 2, str(file), fragment)

    def test_c6_a_default_topology_that_is_not_there(self, up: Start, tmp_path: Path) -> None:
        file = tmp_path / "operator.yaml"
        kind = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
        file.write_text(f"{kind}topology: {{enabled: true, name: hall}}\n")
        self.check(
            up("--config", str(file)),
            2,
            'ClusterTopology "hall" not found',
        )

    def test_a_nodes_file_that_is_not_there(self, up: Start) -> None:
        self.check(up("--nodes", "absent.yaml"), 2, "absent.yaml", "No such file")

    @pytest.mark.parametrize(
        ("content", "fragment"),
        [
            ("a: [", ":2:1: not YAML"),
            ("- 1\n", "document 1: found list, expected an object"),
            ("kind: Pod\n", "apiVersion: found None, expected a text"),
            ("apiVersion: v1\nkind: Pod\nmetadata: 3\n", "metadata: found 3, expected an object with a name"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "metadata.name: found None"),
            ("apiVersion: v1\nkind: List\nitems: 3\n", "items: found int, expected a list"),
            ("\x00", "not YAML"),
        ],
        ids=["not-yaml", "list", "no-version", "metadata", "no-name", "items", "null-byte"],
    )
    def test_a_bad_manifest(self, up: Start, tmp_path: Path, content: str, fragment: str) -> None:
        file = tmp_path / "manifest.yaml"
        file.write_text(content)
        self.check(up("-f", str(file)), 2, str(file), fragment)

    def test_a_manifest_that_is_not_there(self, up: Start) -> None:
        self.check(
            up("-f", "absent.yaml"),
            2,
            "absent.yaml: cannot be read: No such file or directory",
        )

    def test_an_unknown_kind_in_a_manifest(self, up: Start, tmp_path: Path) -> None:
        file = tmp_path / "manifest.yaml"
        file.write_text(
            CONFIG.replace("NAME", "a") + "---\napiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n"
        )
        self.check(
            up("-f", str(file)),
            2,
            "document 2: Gadget g: the server has no example.com/v1 Gadget",
        )

    def test_a_manifest_that_the_server_refuses(self, up: Start, tmp_path: Path) -> None:
        file = tmp_path / "manifest.yaml"
        file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n")
        self.check(
            up("-f", str(file)),
            2,
            f"{file}, document 1: Pod p: ",
            "spec.containers: Required value",
        )

    def test_a_kubeconfig_that_cannot_be_written(self, up: Start, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        path = tmp_path / "file" / "kubeconfig"
        self.check(
            up("--kubeconfig", str(path)),
            2,
            f"--kubeconfig {path}: cannot be written: ",
        )

    def test_a_kubeconfig_of_somebody_else_is_not_overwritten(self, up: Start, tmp_path: Path) -> None:
        theirs = tmp_path / "config"
        content = yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "production"}]})
        theirs.write_text(content)
        self.check(
            up("--kubeconfig", str(theirs)),
            2,
            f"--kubeconfig {theirs}: holds something else",
        )
        assert theirs.read_text() == content

    def test_a_data_directory_that_cannot_be_used(self, up: Start, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        self.check(
            up("--data-dir", str(tmp_path / "file" / "state")),
            2,
            "--data-dir",
            "cannot be used",
        )

    def test_a_journal_that_is_none(self, up: Start, tmp_path: Path) -> None:
        (tmp_path / "objects.db").write_bytes(b"this is not a database, it is a sentence. " * 100)
        self.check(
            up("--data-dir", str(tmp_path)),
            3,
            "objects.db: cannot be used as a journal of objects",
        )

    def test_a_real_control_plane_beyond_loopback(self, up: Start) -> None:
        self.check(
            up("--real", "--host", "0.0.0.0"),
            2,
            "--real listens on loopback only",
        )

    def test_a_kubelet_without_a_real_control_plane(self, up: Start) -> None:
        self.check(up("--kubelet", "2"), 2, "--kubelet: a kubelet needs a real kube-apiserver; expected --real")

    def test_an_image_for_nodes_that_run_none(self, up: Start) -> None:
        self.check(up("--real", "--image", "app.tar"), 2, "--image: simulated nodes run no images; expected --kubelet")

    def test_an_image_that_is_not_there(self, up: Start) -> None:
        self.check(up("--real", "--kubelet", "--image", "app.tar"), 2, "--image app.tar: no such file")


def test_an_unknown_option_is_a_usage_error(up: Up) -> None:
    status, said = up("--nonsense").refused()
    assert status == 2
    assert "--nonsense" in said


def test_logs_are_one_json_line_each_on_standard_error(up: Up) -> None:
    running = up().ready()
    status, _ = running.http("GET", "/api/v1/nodes")
    assert status == 200
    running.kubectl("get", "nothing-of-the-kind", check=False)
    assert running.stderr == ""
    assert running.stdout.count("\n") == 4  # the block that begins with "ready"


@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"], ["manifests", "--help"]])
def test_help_is_quick_and_shows_examples(arguments: list[str]) -> None:
    times = []
    for _ in range(3):
        begun = time.monotonic()
        done = subprocess.run([*SPINNEY, *arguments], capture_output=True, text=True, check=True, env=os.environ)
        times.append(time.monotonic() - begun)
    assert "Usage: spinney" in done.stdout
    if arguments != ["manifests", "--help"]:
        assert "spinney up" in done.stdout
    print(f"help of {arguments}: {min(times):.3f} s")
    assert min(times) < 1.0
