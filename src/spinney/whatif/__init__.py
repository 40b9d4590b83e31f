"""What-if simulations as functions: values in, values out; nothing is written to a cluster."""
