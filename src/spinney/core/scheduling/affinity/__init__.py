"""Pod affinity and anti-affinity between gangs and the pods that run."""
