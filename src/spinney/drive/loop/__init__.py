"""Controllers and their work queues."""
