"""Leader election: one Lease, and a thread that renews it."""
