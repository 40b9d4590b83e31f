"""Where to? Counting, search, preferences, preemption, consolidation and explanation: pure and deterministic."""
