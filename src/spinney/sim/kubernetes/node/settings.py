"""What containerd, kubelet, kube-proxy and the cluster's DNS are told on a machine: their files, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PAUSE_IMAGE = "localhost/pause:3"
CLUSTER_DOMAIN = "cluster.local"
DNS_ADDRESS = "10.96.0.10"
_CNI_PLUGINS = Path("/usr/lib/cni")
BRIDGE = "nodes0"
GATEWAY = "10.240.0.1"


@dataclass(frozen=True, slots=True)
class Place:
    """Of a node among the others."""

    index: int

    @property
    def address(self) -> str:
        return f"10.240.0.{10 + self.index}"

    @property
    def pods(self) -> str:
        """The addresses of its pods."""
        return f"10.244.{self.index}.0/24"


def write_settings(directory: Path, name: str, place: Place, group: str) -> None:
    """Everything that programs of a node read; certificates and kubeconfigs are there already."""
    (directory / "containerd.toml").write_text(_containerd(directory))
    networks = directory / "cni"
    networks.mkdir(exist_ok=True)
    (networks / "10-pods.conflist").write_text(json.dumps(_pod_network(place)))
    (directory / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(directory, group)))
    (directory / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy(directory, name)))
    (directory / "var").mkdir(exist_ok=True)
    (directory / "var" / "resolv.conf").write_text("")


def write_dns_settings(directory: Path, kubeconfig: Path) -> None:
    zones = f"kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{\n    kubeconfig {kubeconfig}\n  }}"
    (directory / "Corefile").write_text(f".:53 {{\n  errors\n  {zones}\n}}\n")


def _containerd(directory: Path) -> str:
    """Kubernetes' own settings of runc; scores of the out-of-memory killer are left to the kernel."""
    return f"""\
version = 2
oom_score = 0
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_CNI_PLUGINS}"
    conf_dir = "{directory}/cni"
"""


def _pod_network(place: Place) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": place.pods}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}


def _kubelet(directory: Path, group: str) -> dict[str, Any]:
    """Only the API server has a certificate that it accepts; that one may do everything."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{group}",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(directory / "clients.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "oomScoreAdj": 0,
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [DNS_ADDRESS],
        "resolvConf": "/var/resolv.conf",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "nodeStatusUpdateFrequency": "5s",
    }


def _kube_proxy(directory: Path, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": "10.244.0.0/16",
        "hostnameOverride": name,
        "clientConnection": {"kubeconfig": str(directory / "proxy.kubeconfig")},
        "conntrack": {"maxPerCore": 0, "min": 0},
        "nodePortAddresses": ["primary"],
    }
