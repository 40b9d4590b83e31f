"""Status and events: of gangs, of PodGroups and of queues."""
