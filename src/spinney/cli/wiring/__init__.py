"""What commands start and connect: stacks, roles, servers, pages, and the sources they read."""
