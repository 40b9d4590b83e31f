"""The pod-grouper: pods of our scheduler that have no PodGroup get one."""
