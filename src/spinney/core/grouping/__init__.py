"""What gang does a pod belong to? From a pod and its owners to the PodGroup it should be in (K1, K2)."""
