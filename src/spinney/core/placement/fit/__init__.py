"""What counting alone decides: gangs placed without a search, proofs that nothing fits, regions worth searching."""
