"""Drills: something is broken on purpose, and whoever should notice must."""
