"""May it enter? Rules in process and webhooks that are called out to, in the order of a kube-apiserver."""
