"""What people see, as values: stories of workloads, trees with who sits where, problems of topologies. Never prints."""
