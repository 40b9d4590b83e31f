"""`spinney up` as a process, for tests that use it as people do."""
