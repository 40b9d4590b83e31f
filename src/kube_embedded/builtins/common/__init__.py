"""What the rules of all built-in kinds share: metadata, checks of fields, printing, the strategy itself."""
