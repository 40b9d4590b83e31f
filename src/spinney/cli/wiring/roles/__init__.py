"""The roles of `spinney run`: what each is given, its election, probes, and the role at work."""
