"""The demonstration of `spinney demo`: its cluster, its script, its run."""
