"""The words: typed objects, units, CRDs, labels and names, errors."""
