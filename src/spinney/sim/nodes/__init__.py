"""Simulated nodes: described in a file, kept alive, and running whatever is bound to them."""
