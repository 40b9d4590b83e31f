"""The scheduler: caches, cycles whenever something changed, and the execution of their actions."""
