"""The pod-grouper: pods become members of the PodGroups that their owners ask for."""
