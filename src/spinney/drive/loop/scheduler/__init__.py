"""The scheduler's loop: what is seen, what is decided, and how it is carried out."""
