"""Reconciliation as pure functions: from an owner and its observed objects to the changes to make."""
