"""API client, kubeconfig, watch cache, leases."""
