"""Views for users as values: workload explanations, topology trees with gangs, topology problems. Never prints."""
