"""Properties that hold after every write, whatever goes wrong: read from the server's own record, by nobody's cache."""
