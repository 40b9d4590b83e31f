"""What the server does by itself: garbage collection, definitions, namespaces, the objects of a new cluster."""
