"""Who is asking, and may they? Identities, tokens, RBAC and the reviews that answer questions about them."""
