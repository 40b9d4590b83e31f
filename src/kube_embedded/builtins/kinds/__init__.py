"""Kinds around pods and the kinds that make pods: one module for each API group or family."""
