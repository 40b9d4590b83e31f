"""A real Kubernetes control plane on loopback: kube-apiserver, etcd, kube-controller-manager and kubectl."""
