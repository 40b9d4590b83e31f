"""What manifests would become: the pods and PodGroups that controllers would make of them, without any server."""
