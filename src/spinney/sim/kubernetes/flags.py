"""The command lines of the three programs."""

from __future__ import annotations

from pathlib import Path

from spinney.sim.kubernetes.certificates import Certificates

# Each of these waits for, or undoes, the work of a controller that does not run here: service accounts would be looked
# up before anybody made them, new nodes would stay tainted, and volumes would keep finalizers that nobody removes.
DISABLED_ADMISSION = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")


def etcd_flags(data: Path, client_port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
        "--snapshot-count=100000",
        "--quota-backend-bytes=4294967296",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=0",
    ]


def apiserver_flags(etcd_url: str, port: int, certificates: Certificates, tokens: Path) -> list[str]:
    return [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={certificates.server}",
        f"--tls-private-key-file={certificates.server_key}",
        f"--client-ca-file={certificates.authority}",
        f"--token-auth-file={tokens}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.service_account_key}",
        f"--service-account-signing-key-file={certificates.service_account_key}",
        "--authorization-mode=RBAC",
        f"--disable-admission-plugins={','.join(DISABLED_ADMISSION)}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
    ]


def controller_manager_flags(kubeconfig: Path, controllers: tuple[str, ...]) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--concurrent-gc-syncs=20",
        "--concurrent-namespace-syncs=20",
    ]
