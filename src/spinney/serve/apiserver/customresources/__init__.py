"""Custom resources: their definitions, and the strategy that makes a kind of its own from each."""

from spinney.serve.apiserver.customresources.naming import established
from spinney.serve.apiserver.customresources.serving import resources

__all__ = ["established", "resources"]
