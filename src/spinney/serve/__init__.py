"""The listening: API server, webhooks, pages."""
