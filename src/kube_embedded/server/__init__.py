"""From a socket to an answer: connections, HTTP, routing, and the server put together."""
