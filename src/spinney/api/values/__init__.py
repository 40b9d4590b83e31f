"""Values written as text, read and written the way Kubernetes does: quantities, durations, whole numbers, selectors."""
