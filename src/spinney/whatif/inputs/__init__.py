"""Inputs of a what-if: manifests, described nodes, and a snapshot of a cluster."""
