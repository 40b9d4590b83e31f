"""What the operator makes beside pods: services, autoscalers, access of init containers, claims, compute domains."""
