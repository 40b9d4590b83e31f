"""Restrictions of placement by volumes and resource claims."""
