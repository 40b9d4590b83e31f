"""The operator: controllers that carry out what `spinney.core.expansion` says."""
