"""The API server and our credentials: kubeconfig, credentials, service account."""
