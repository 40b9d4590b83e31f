"""Invariants that hold after every write under any fault, checked on the server's recorded state, not on a cache."""
