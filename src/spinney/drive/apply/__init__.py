"""The one door for writes."""
