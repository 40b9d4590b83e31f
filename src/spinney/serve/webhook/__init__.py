"""HTTPS admission for a real cluster: the same rules that the embedded server asks in process."""
