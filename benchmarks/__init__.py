"""Benchmarks: figures and ratios measured in one run; nothing here asserts a time."""
