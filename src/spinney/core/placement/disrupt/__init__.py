"""Room at the cost of others: cheapest victims, fewest moves, and the trials that prove them."""
