"""One scheduling cycle: what changed is read, gangs are decided in order, actions are handed out."""
