"""Expands a PodClique: its pods, their start-up order and their replacement. Pure."""
