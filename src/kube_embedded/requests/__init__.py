"""The verbs of a request: bodies read and normalized, admitted, stored; objects read, watched and deleted."""
