"""Pod grouping: derives the PodGroup of a pod from the pod and its owners (K1, K2)."""
