"""The doing: client, the one door for writes, loops."""
