"""The built-in kinds: their schemas, defaults, rules and columns."""
