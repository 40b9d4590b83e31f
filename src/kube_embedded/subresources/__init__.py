"""Requests to subresources and virtual kinds: bindings, evictions, scales, reviews and tokens."""
