"""Which API server, and who we are there: kubeconfig, credentials, service account."""
