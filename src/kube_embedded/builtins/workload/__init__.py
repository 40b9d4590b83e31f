"""Kinds that make pods: Deployments, StatefulSets, DaemonSets, Jobs; their autoscalers and disruption budgets."""
