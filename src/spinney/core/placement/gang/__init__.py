"""What a gang asks for and what it already has: its tree of parts, choices of children, ties, and running pods."""
