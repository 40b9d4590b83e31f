"""CEL expressions and rules, with the library and the functions that Kubernetes gives them."""
