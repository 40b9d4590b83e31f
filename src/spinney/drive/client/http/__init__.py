"""Requests to an API server: transport, connections, retries, limits."""
