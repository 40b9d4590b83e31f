"""Judges of the placement engine: random problems, a rule checker, an exact solver and a brute-force twin.

Nothing here may import the engine or its types: the judges read the exchange format on their own.
"""
