"""Replay: a trace of gangs over a described cluster in simulated time, decided by the scheduler's own engine."""
