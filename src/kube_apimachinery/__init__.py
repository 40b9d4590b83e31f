"""What Kubernetes itself defines and clients and servers share: quantities, selectors, names, field errors, reviews."""
