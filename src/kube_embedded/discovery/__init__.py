"""Paths that are no resources: API groups, OpenAPI documents, health and version."""
