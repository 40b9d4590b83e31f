"""The owner kinds: one small module each, and the register of all."""
