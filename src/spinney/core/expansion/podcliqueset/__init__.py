"""Expands a PodCliqueSet: its layout, topology, revisions and rolling update. Pure."""
