"""The three kinds of patches: JSON patch, merge patch, strategic merge patch."""

from kube_embedded.patch.json_operations import json_patch
from kube_embedded.patch.strategic import merge_patch, strategic_merge_patch

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]
