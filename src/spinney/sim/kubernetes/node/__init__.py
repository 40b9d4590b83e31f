"""Real nodes in namespaces of their own: kubelet, containerd, kube-proxy and DNS beside a real control plane."""
