"""The Helm chart: what it renders is what `spinney manifests all` prints, and its life on a real API server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster_kit.real_programs import helm_program, real_programs
from contract.test_manifests import manifests
from spinney.sim.kubernetes.control_plane import ControlPlane, Settings

pytestmark = pytest.mark.real

Json = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]
CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
KEEP = "helm.sh/resource-policy"


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    program, home = helm_program(), tmp_path_factory.mktemp("helm")
    environ = os.environ | {f"HELM_{kind}_HOME": str(home / kind) for kind in ("CACHE", "CONFIG", "DATA")}

    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([str(program), *words], env=environ, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that has never seen our kinds."""
    with ControlPlane(Settings(real_programs(), tmp_path_factory.mktemp("chart") / "plane", ())) as found:
        yield found


def rendered(helm: Helm, *told: str, namespace: str = "spinney-system") -> dict[tuple[str, str], Json]:
    words = [word for one in told for word in ("--set", one)]
    return by_name(helm("template", "spinney", str(CHART), "-n", namespace, *words).stdout)


def by_name(text: str) -> dict[tuple[str, str], Json]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}


@pytest.mark.parametrize("namespace", ["spinney-system", "spinney-two"])
def test_b9_the_chart_with_default_values_is_what_the_manifests_are(helm: Helm, namespace: str) -> None:
    """But for the namespace, which helm makes, and a mark that keeps the kinds when a release is uninstalled."""
    found, expected = rendered(helm, namespace=namespace), by_name(manifests("all", "-n", namespace))
    assert expected.pop(("Namespace", namespace))
    for (kind, name), obj in found.items():
        if kind == "CustomResourceDefinition":
            assert obj["metadata"]["annotations"].pop(KEEP) == "keep", name
            if not obj["metadata"]["annotations"]:
                del obj["metadata"]["annotations"]
    assert found == expected


def test_b9_each_role_is_told_what_values_say(helm: Helm) -> None:
    found = rendered(
        helm,
        "roles.scheduler.replicas=3",
        "roles.scheduler.priorityClassName=important",
        "roles.scheduler.resources.limits.memory=1Gi",
        "roles.scheduler.nodeSelector.pool=system",
        "roles.scheduler.tolerations[0].key=system",
        "roles.scheduler.affinity.nodeAffinity.x=y",
        "image.repository=example.com/spinney",
        "image.tag=1.2.3",
        "imagePullSecrets[0].name=registry",
        "configuration.logLevel=debug",
    )
    scheduler = found["Deployment", "spinney-scheduler"]["spec"]
    pod = scheduler["template"]["spec"]
    assert (scheduler["replicas"], pod["priorityClassName"], pod["nodeSelector"]) == (
        3,
        "important",
        {"pool": "system"},
    )
    assert (pod["tolerations"], pod["affinity"]) == ([{"key": "system"}], {"nodeAffinity": {"x": "y"}})
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["image"] == "example.com/spinney:1.2.3"
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}
    told = yaml.safe_load(found["ConfigMap", "spinney"]["data"]["operator.yaml"])
    assert (told["logLevel"], told["topologyAwareScheduling"]["enabled"]) == ("debug", True)
    plain = rendered(helm)["Deployment", "spinney-scheduler"]["spec"]["template"]["metadata"]["annotations"]
    assert scheduler["template"]["metadata"]["annotations"] != plain, "another configuration restarts the roles"


def test_b9_what_is_off_by_default_can_be_switched_on(helm: Helm) -> None:
    found = rendered(
        helm,
        "dashboard.expose=true",
        "dashboard.tokenSecret=token",
        "dashboard.certificateSecret=pages-tls",
        "metrics.serviceMonitor.enabled=true",
        "networkPolicy.enabled=true",
        "metrics.rules.enabled=true",
        "metrics.grafanaDashboard.enabled=true",
    )
    more = set(found) - set(rendered(helm))
    roles = ("dashboard", "dynamo", "operator", "scheduler", "webhook")
    assert more == {
        ("Service", "spinney-dashboard"),
        ("ServiceMonitor", "spinney"),
        ("NetworkPolicy", "spinney"),
        ("PrometheusRule", "spinney"),
        ("ConfigMap", "spinney-grafana-dashboard"),
        *(("Service", f"spinney-{role}-metrics") for role in roles),
    }
    alerts = yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text())
    assert found["PrometheusRule", "spinney"]["spec"] == alerts
    shown = json.loads(found["ConfigMap", "spinney-grafana-dashboard"]["data"]["spinney.json"])
    assert shown == json.loads((CHART / "monitoring" / "dashboard.json").read_text())
    pod = found["Deployment", "spinney-dashboard"]["spec"]["template"]["spec"]
    told = ["--token-file", "/etc/spinney-dashboard/token", "--cert-dir", "/etc/spinney-dashboard-certificate"]
    assert pod["containers"][0]["args"][-4:] == told
    mounted = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]][-2:]
    assert mounted == ["/etc/spinney-dashboard", "/etc/spinney-dashboard-certificate"]
    assert pod["volumes"][-2] == {"name": "token", "secret": {"secretName": "token"}}
    assert pod["volumes"][-1] == {"name": "certificate", "secret": {"secretName": "pages-tls"}}
    (endpoint,) = found["ServiceMonitor", "spinney"]["spec"]["endpoints"]
    assert (endpoint["scheme"], bool(endpoint["bearerTokenFile"])) == ("https", True)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("roles.scheduler.replicas=many", "roles/scheduler/replicas"),
        ("roles.gardener.replicas=1", "gardener"),
        ("dashboard.expose=true", "dashboard.tokenSecret is needed"),
        ("configuration.server.webhooks.port=9", "configuration.server.webhooks.port changes"),
        ("configuration.authorizer.enabled=true", "configuration.authorizer changes"),
        ("configuration.leaderElection.resourceName=mine", "configuration.leaderElection names the Lease"),
    ],
)
def test_b9_values_that_the_chart_cannot_honour_are_refused(helm: Helm, told: str, why: str) -> None:
    done = helm("template", "spinney", str(CHART), "--set", told, check=False)
    assert done.returncode != 0
    assert why in done.stderr.replace(".", "/") or why in done.stderr


def test_b9_a_release_is_installed_upgraded_uninstalled_and_installed_again(helm: Helm, plane: ControlPlane) -> None:
    """The kinds and the objects of users outlive a release."""
    release = ("spinney", str(CHART), "-n", "gangs", "--kubeconfig", str(plane.kubeconfig))

    def kubectl(*words: str) -> str:
        command = [str(real_programs().kubectl), "--kubeconfig", str(plane.kubeconfig), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    done = helm("install", *release, "--create-namespace")
    assert "spinney topology discover" in done.stdout
    kubectl("-n", "gangs", "patch", "secret", "spinney-webhook-certificates", "-p", '{"stringData": {"kept": "yes"}}')
    helm("upgrade", *release, "--set", "roles.operator.replicas=1")
    deployment = json.loads(kubectl("-n", "gangs", "get", "deployment", "spinney-operator", "-o", "json"))
    assert deployment["spec"]["replicas"] == 1
    assert "kept" in kubectl("-n", "gangs", "get", "secret", "spinney-webhook-certificates", "-o", "yaml")
    helm("uninstall", "spinney", *release[2:])
    left = kubectl("get", "deployments,services,validatingwebhookconfigurations,mutatingwebhookconfigurations", "-A")
    assert "spinney" not in left
    kinds = kubectl("get", "crds", "-o", "name").split()
    assert "customresourcedefinition.apiextensions.k8s.io/podcliquesets.grove.io" in kinds
    helm("install", *release)
