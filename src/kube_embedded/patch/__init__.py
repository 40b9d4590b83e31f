"""The three kinds of patches: JSON patch, merge patch, strategic merge patch."""

from kube_embedded.patch.json_patch import json_patch
from kube_embedded.patch.merge_patch import merge_patch
from kube_embedded.patch.strategic import strategic_merge_patch

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]
