"""May it enter? Defaulting and validation, one module per kind or concern. Pure."""
