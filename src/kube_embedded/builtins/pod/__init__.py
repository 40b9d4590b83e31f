"""Pods and their specs: defaults, checks, updates, warnings, rows."""
