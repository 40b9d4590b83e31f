"""Controllers, work queues, supervised tasks."""
