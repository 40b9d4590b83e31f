"""What does it imply? From an owner and what is observed to the changes that follow. Pure."""
