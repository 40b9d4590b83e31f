"""Preemption and consolidation: the cheapest victims, the fewest moves, and the what-if trials that prove them."""
