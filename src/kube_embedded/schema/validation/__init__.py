"""Whether a value fits its schema, and what is wrong with it in the words of kube-apiserver."""
