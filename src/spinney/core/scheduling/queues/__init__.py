"""Queues: the tree with limits and quotas, preemption for a limit, and status."""
