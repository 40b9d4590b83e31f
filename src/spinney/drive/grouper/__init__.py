"""The pod-grouper: assigns pods to the PodGroups that their owners ask for."""
