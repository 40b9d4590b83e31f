"""Pod affinity and anti-affinity between a gang and running pods."""
