"""What commands read before they ask: the configuration, topologies and their users, and plan requests."""
