"""The scheduler: caches, cycles whenever something changed, and the work that they hand out."""
