"""A PodGroup and its pods, parsed: sub-groups, pod sets, shapes, segments, ranks, priorities."""
