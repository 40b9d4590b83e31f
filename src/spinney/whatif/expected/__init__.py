"""The pods and PodGroups that controllers would create from manifests, computed without a server."""
