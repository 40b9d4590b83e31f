"""What a PodClique implies: its pods, their start-up order and their replacement. Pure."""
