"""The pages: what people see of a cluster in a browser."""
