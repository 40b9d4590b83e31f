"""Pods and their specs: defaults, checks, updates, rows."""
