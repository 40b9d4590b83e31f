"""Ownership of fields: managedFields and server-side apply."""

from kube_embedded.apply.ownership import Entry, Scope, created, keep_times, scope_of, track_update
from kube_embedded.apply.server_side import apply

__all__ = ["Entry", "Scope", "apply", "created", "keep_times", "scope_of", "track_update"]
