"""From pods and PodGroups to gangs, verdicts and recorded plans: the pure half of the scheduler."""
