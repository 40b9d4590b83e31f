"""Kinds that govern the API itself: RBAC, webhook configurations, reviews and definitions."""
