"""Placement of gangs: counting, search, preferences, preemption, consolidation, explanation; pure, deterministic."""
