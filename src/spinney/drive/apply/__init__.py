"""Writes to the API server: all of them pass through one `Door`."""
