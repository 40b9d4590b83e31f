"""List and watch: caches that many readers share, and what they have to show of our own writes."""
