"""Objects the operator creates besides pods: services, autoscalers, init container RBAC, claims, compute domains."""
