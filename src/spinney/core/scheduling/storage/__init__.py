"""Where volumes and resource claims let pods run."""
