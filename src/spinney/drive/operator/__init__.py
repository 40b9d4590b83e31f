"""The operator: PodCliqueSets, PodCliques, scaling groups, PodGangs and ClusterTopologies."""
