"""The owner kinds: one small module each, and the registry of all."""
