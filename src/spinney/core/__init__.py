"""The thinking: pure decisions, no I/O, no clock, no async."""
