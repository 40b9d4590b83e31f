"""Commands; the only place that wires things together."""
