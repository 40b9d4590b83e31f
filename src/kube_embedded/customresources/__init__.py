"""Custom resources: their definitions, and the strategy that makes a kind of its own from each."""

from kube_embedded.customresources.definition_status import established
from kube_embedded.customresources.serving import resources

__all__ = ["established", "resources"]
