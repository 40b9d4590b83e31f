"""Who speaks to the servers: the administrator and some who may do nothing unless a role says so."""

from __future__ import annotations

USERS: dict[str, tuple[str, ...]] = {"alice": ("dev",), "bob": (), "carol": ("ops", "dev")}
