"""What a what-if is asked about: manifests, described nodes, and a cluster read once."""
