"""PodCliqueSets: what is filled in, and the rules of validation by concern."""
