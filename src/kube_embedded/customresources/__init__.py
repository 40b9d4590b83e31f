"""Custom resources: their definitions, and the strategy that makes a kind of its own from each."""

from kube_embedded.customresources.definition import established
from kube_embedded.customresources.strategy import resources

__all__ = ["established", "resources"]
