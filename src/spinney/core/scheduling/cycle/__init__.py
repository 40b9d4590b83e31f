"""Pure decisions of a scheduling cycle: the session over the engine, disruption budgets, limits, reviews."""
