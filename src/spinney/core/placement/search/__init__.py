"""The exact search for a placement: a space of nodes as bit masks, candidate domains, packing, and preferences."""
