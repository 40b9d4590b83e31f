"""A world in a box: simulated nodes, seeded clock, faults."""
