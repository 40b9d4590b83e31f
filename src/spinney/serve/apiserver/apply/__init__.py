"""Ownership of fields: managedFields and server-side apply."""

from spinney.serve.apiserver.apply.entries import Entry
from spinney.serve.apiserver.apply.server_side import apply
from spinney.serve.apiserver.apply.track import Scope, created, keep_times, scope_of, track_update

__all__ = ["Entry", "Scope", "apply", "created", "keep_times", "scope_of", "track_update"]
