"""Schemas of objects: compiled form, pruning, defaulting, validation, CEL."""
