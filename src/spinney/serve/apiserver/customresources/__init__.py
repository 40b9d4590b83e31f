"""Custom resources: their definitions, and the strategy that makes a kind of its own from each."""
